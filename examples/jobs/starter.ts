import { Client, Connection } from '@temporalio/client';
import type * as activities from './activities';

// #region start
async function convertAll(client: Client, videos: string[]): Promise<string[]> {
  const jobs = client.activity.typed<typeof activities>();
  const convert = async (video: string) =>
    await jobs.execute('convert', {
      id: `convert-${video}`,
      taskQueue: 'jobs',
      args: [video],
      startToCloseTimeout: '1 hour', // a job waits for its permit for half of that, and is then retried
      heartbeatTimeout: '10s', // from its heartbeats, a job that waits or runs learns of a cancellation or a pause
    });
  return await Promise.all(videos.map(convert));
}
// #endregion

async function main(): Promise<void> {
  const connection = await Connection.connect({ address: process.env.TEMPORAL_ADDRESS ?? 'localhost:7233' });
  const videos = await convertAll(new Client({ connection }), ['cats', 'dogs', 'birds', 'bees', 'ants']);
  console.log(videos.join('\n'));
  await connection.close();
}

main().catch((error: unknown) => {
  console.error(error);
  process.exitCode = 1;
});
