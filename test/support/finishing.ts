import { condition, defineSignal, setHandler, upsertMemo } from '@temporalio/workflow';
import { BODY_MARKS } from '../../scripts/support/body-marks';
import type { AcquireOptions, SemaphoreOptions } from '../../src/workflow';

export const finish = defineSignal('finish');

export interface PoolInput {
  resource: string;
  semaphore: SemaphoreOptions;
  acquire?: AcquireOptions;
}

/** Writes into the history of its Workflow when `body` ran under the permit, for the checks of safety. */
export async function marked<T>(runId: string, body: () => Promise<T>): Promise<T> {
  upsertMemo({ [BODY_MARKS.began(runId)]: true });
  try {
    return await body();
  } finally {
    upsertMemo({ [BODY_MARKS.ended(runId)]: true });
  }
}

/** Waits for the signal `finish`. */
export function finishes(): () => Promise<void> {
  let finished = false;
  setHandler(finish, () => {
    finished = true;
  });
  return () => condition(() => finished);
}
