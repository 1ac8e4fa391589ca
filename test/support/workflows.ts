import {
  ApplicationFailure,
  condition,
  continueAsNew,
  defineQuery,
  defineSignal,
  setHandler,
  sleep,
} from '@temporalio/workflow';
import { type AcquireOptions, Semaphore, type SemaphoreOptions } from '../../src/workflow';

export * from '../../src/workflow';
export { exampleConsumer } from '../../src/workflows/example';

export const finish = defineSignal('finish');
export const stage = defineQuery<Stage>('stage');

export interface Stage {
  at: 'waiting' | 'holding' | 'lost' | 'done';
  slot?: string;
  runId?: string;
}

export interface HolderInput {
  resource: string;
  semaphore: SemaphoreOptions;
  acquire?: AcquireOptions;
  /** How long to hold, in milliseconds; until the signal `finish` if not given. */
  holdMs?: number;
  then?: 'return' | 'fail' | 'continue-as-new';
}

/** Holds a permit by `withPermit`, tells by query where it stands, and ends as asked. */
export async function holder({ resource, semaphore, acquire, holdMs, then = 'return' }: HolderInput): Promise<Stage> {
  let now: Stage = { at: 'waiting' };
  let finished = false;
  setHandler(finish, () => {
    finished = true;
  });
  setHandler(stage, () => now);
  return await new Semaphore(resource, semaphore).withPermit(async (permit) => {
    now = { at: 'holding', slot: permit.slot, runId: permit.runId };
    try {
      if (holdMs === undefined) await condition(() => finished);
      else await sleep(holdMs);
    } catch (error) {
      now = { ...now, at: 'lost' };
      throw error;
    }
    if (then === 'fail') throw ApplicationFailure.nonRetryable('as asked', 'AsAsked');
    if (then === 'continue-as-new') await continueAsNew<typeof holder>({ resource, semaphore, acquire, holdMs });
    now = { ...now, at: 'done' };
    return now;
  }, acquire);
}
