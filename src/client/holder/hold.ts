import { AsyncLocalStorage } from 'node:async_hooks';
import { withTokenOf } from '../../fencing/current-token';
import { HeldHere } from '../../shared/held-here';
import { lossOver, SelfDeadlockError } from '../server/errors';
import type { Permit } from './permit';
import { releaseOrWarn } from './release';

/** Runs `fn` with the permit's token as its `currentFencingToken()`, even after the permit has got another token. */
export async function asHolder<T>(permit: Permit, fn: (permit: Permit) => T | Promise<T>): Promise<T> {
  return await withTokenOf(
    () => permit,
    async () => await fn(permit),
  );
}

/**
 * Runs `fn` under a permit, and then releases the permit. The server reports whether the release ended the permit, so that `fn` was done in
 * time, or whether it had ended before.
 */
export async function holdWhile<T>(permit: Permit, fn: (permit: Permit) => T | Promise<T>): Promise<T> {
  let result: T;
  try {
    result = await heldHere.run([permit], () => asHolder(permit, fn));
  } catch (error) {
    await releaseOrWarn(permit);
    const loss = permit.loss ?? (permit.signal.aborted ? permit.signal.reason : await permit.confirmLoss());
    throw loss ? lossOver(loss, error) : error;
  }
  await releaseOrWarn(permit);
  const loss = permit.loss ?? (await permit.confirmLoss());
  if (loss) throw loss;
  return result;
}

/** The permits under which the calling code runs. */
export const heldHere = new HeldHere<Permit>(new AsyncLocalStorage(), SelfDeadlockError);
