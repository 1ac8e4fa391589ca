import { Client, Connection } from '@temporalio/client';
import type * as workflows from './workflows';

async function main(): Promise<void> {
  const connection = await Connection.connect({ address: process.env.TEMPORAL_ADDRESS ?? 'localhost:7233' });
  const client = new Client({ connection });
  const start = async (type: keyof typeof workflows, tenant: string, nth: number) => {
    const name = `${type}-${tenant}-${nth}`;
    const options = { taskQueue: 'jobs', workflowId: name, args: [{ tenant, name }] as [workflows.Job] };
    return await client.workflow.execute<typeof workflows.trainModel>(type, options);
  };
  const jobs = ['acme', 'globex'].flatMap((tenant) => [
    ...[1, 2, 3].map((nth) => start('trainModel', tenant, nth)),
    ...[1, 2].map((nth) => start('renderVideo', tenant, nth)),
    start('exportReport', tenant, 1),
  ]);
  console.log((await Promise.all(jobs)).join('\n'));
  await connection.close();
}

main().catch((error: unknown) => {
  console.error(error);
  process.exitCode = 1;
});
