import { Context } from '@temporalio/activity';

/** A job. The worker's plugin limits how many run at once, in all workers together. */
export async function convert(video: string): Promise<string> {
  console.log(`begins with ${video}`);
  for (let part = 1; part <= 5; part++) {
    await Context.current().sleep(100); // throws when the job is cancelled or paused, or its permit is lost
    Context.current().heartbeat(part);
  }
  console.log(`is done with ${video}`);
  return `${video}.mp4`;
}
