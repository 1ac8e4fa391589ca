import { Client, Connection } from '@temporalio/client';
import { trainModel } from './workflows';

async function main(): Promise<void> {
  const connection = await Connection.connect({ address: process.env.TEMPORAL_ADDRESS ?? 'localhost:7233' });
  const client = new Client({ connection });
  const start = (model: string) =>
    client.workflow.execute(trainModel, { taskQueue: 'training', workflowId: `train-${model}`, args: [model] });
  const trained = await Promise.all(['alpha', 'beta', 'gamma'].map(start)); // three models, two GPUs
  console.log(trained.join('\n'));
  await connection.close();
}

main().catch((error: unknown) => {
  console.error(error);
  process.exitCode = 1;
});
