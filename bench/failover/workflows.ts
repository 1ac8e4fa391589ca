// What the worker of the bench registers: the library, and the bare steps on which it rests.
import {
  condition,
  defineSignal,
  getExternalWorkflowHandle,
  setHandler,
  sleep,
  startChild,
} from '@temporalio/workflow';
import { Semaphore } from '../../scripts/support/own-queue-semaphore';

export * from '../../src/workflows';

export const stop = defineSignal('stop');
export const end = defineSignal('end');

function untilStopped(): () => boolean {
  let stopped = false;
  setHandler(stop, () => {
    stopped = true;
  });
  return () => stopped;
}

/** Takes a permit again and again. */
export async function holderLoop(resource: string, capacity: number, holdMs: number): Promise<void> {
  const isStopped = untilStopped();
  const semaphore = new Semaphore(resource, { capacity });
  while (!isStopped()) await semaphore.withPermit(async () => await sleep(holdMs));
}

/** What a permit is without the library: a child that is started, held, signalled and awaited. */
export async function bareLoop(holdMs: number): Promise<void> {
  const isStopped = untilStopped();
  while (!isStopped()) {
    const child = await startChild(bareChild);
    await sleep(holdMs);
    await getExternalWorkflowHandle(child.workflowId, child.firstExecutionRunId).signal(end);
    await child.result();
  }
}

export async function bareChild(): Promise<void> {
  let ended = false;
  setHandler(end, () => {
    ended = true;
  });
  await condition(() => ended);
}
