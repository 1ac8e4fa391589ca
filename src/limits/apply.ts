import type { Client } from '@temporalio/client';
import { messageOf } from '../client/server/errors';
import { mapConcurrently } from '../client/server/map-concurrently';
import { StaleOverrideError } from '../operator/errors';
import type { Override } from '../operator/inspection';
import { isSet } from '../operator/inspector';
import { Operator } from '../operator/operator';
import type { Change, Comparison } from './compare';
import { poolOf } from './limit';

/** A limit that is to be changed. */
export type ToChange = Comparison & { readonly change: Change };

/** What became of a change. */
export type Applied =
  /** `null`: the resource is as it was deployed. */
  | { readonly is: 'changed'; readonly of: ToChange; readonly override: Override | null }
  /** The override has changed since it was compared: nothing was done, here or in any change that had not begun. */
  | { readonly is: 'stale'; readonly of: ToChange; readonly problem: string }
  /** It may still take effect, if no worker has answered in time. */
  | { readonly is: 'failed'; readonly of: ToChange; readonly problem: string }
  | { readonly is: 'not-sent'; readonly of: ToChange };

export interface ApplyOptions {
  /** Where a command starts a queue if none runs, as in `OperatorOptions` … */
  taskQueue?: string;
  /** … and where it does if no permit of the resource runs either. */
  ownTaskQueue?: string;
  /** Called for each change when it is done. */
  onApplied?: (applied: Applied) => void;
}

/**
 * Puts changes into force, each with one command and only if the override is still as it was compared. After the first override that is not,
 * it begins no more changes: all limits must be compared again. Other failures stop no other change.
 *
 * @returns what became of each, in their order
 */
export async function applyChanges(
  client: Client,
  changes: readonly ToChange[],
  { taskQueue, ownTaskQueue, onApplied }: ApplyOptions = {},
): Promise<Applied[]> {
  let isStale = false;
  return await mapConcurrently(changes, async (of) => {
    const applied: Applied = isStale
      ? { is: 'not-sent', of }
      : await applyOne(client, of, taskQueue ?? runningOn(of) ?? ownTaskQueue);
    isStale ||= applied.is === 'stale';
    onApplied?.(applied);
    return applied;
  });
}

/** Where the queue of the resource runs, or a permit of it. */
function runningOn({ now: { taskQueue, permits } }: ToChange): string | undefined {
  return taskQueue ?? permits[0]?.permit.taskQueue;
}

async function applyOne(client: Client, of: ToChange, taskQueue: string | undefined): Promise<Applied> {
  const { declared, ifVersion, reason, ...change } = of.change;
  const slots = typeof declared === 'number' ? { capacity: declared } : { slots: declared };
  try {
    const operator = new Operator(client, poolOf(of.limit), { ...slots, taskQueue });
    const override = await operator.set(change, { ifVersion, reason });
    return { is: 'changed', of, override: isSet(override) ? override : null };
  } catch (error) {
    return { is: error instanceof StaleOverrideError ? 'stale' : 'failed', of, problem: messageOf(error) };
  }
}
