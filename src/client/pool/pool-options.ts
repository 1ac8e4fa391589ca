import type { Duration } from '@temporalio/common';
import { type Checks, checkOptions, durationFrom, refuseBeside, wholeFrom } from '../../shared/check';
import { ACQUIRE_CHECKS, checkKey, type ResolvedAcquire, type ResolvedSemaphore } from '../../shared/options';
import { abortSignal, type ClientAcquireOptions } from '../holder/options';
import type { PoolRules } from './pool-state';

/** How a permit pool holds its permits. */
export interface PermitPoolOptions {
  /** The most permits that the pool holds at once, from 1 to the number of slots; of each key, too. @default the number of slots, also those that an operator has added */
  max?: number | undefined;
  /**
   * How long a permit serves this process while others wait that have fewer. It goes back at the end of the call that passes this
   * time; after twice this time where another pool would only have as many as this one had. While nobody else waits, it serves on. At least 1 ms; below a few hand-offs (0.1 s each) the pool does little but hand over.
   * @default 1 second; 3 seconds with a limit `perKey`, where a hand-over moves two permits
   */
  reuseFor?: Duration | undefined;
  /** How long the pool keeps a permit that no call uses; from 0. @default 200 ms */
  idleFor?: Duration | undefined;
}

/**
 * The options of one caller of a pool. `lease`, `renewEvery` and `maxHold` are the semaphore's: callers share its permits.
 *
 * Of `priority`, callers in one process heed the `priorityKey`; the queue heeds all of it, of the caller for whom the pool asks. `purpose` is shown at the server when the pool asks for a
 * permit on behalf of this caller. Later callers under the same permit do not change it.
 */
export type PoolAcquireOptions = Pick<ClientAcquireOptions, 'timeout' | 'priority' | 'purpose' | 'key' | 'signal'>;

/** Checked {@link PoolAcquireOptions}. */
export interface PoolCall extends Pick<ResolvedAcquire, 'timeoutMs' | 'priority' | 'purpose' | 'key'> {
  readonly signal: AbortSignal | undefined;
}

const DEFAULT_REUSE_MS = 1_000;
const DEFAULT_KEYED_REUSE_MS = 3_000;
const DEFAULT_IDLE_MS = 200;

/** A permit serves for this part of its longest time: the rest is left to its last call. */
const SERVING = 0.5;

/** Checks what was given and fills in the rest. @throws InvalidOptionsError */
export function resolvePool(
  { slots, perKey, paceMs, leaseMs, renewEveryMs, maxHoldMs }: ResolvedSemaphore,
  options: PermitPoolOptions = {},
): Omit<PoolRules, 'id'> {
  const { max = slots.length, ...times } = checkOptions(options, {
    max: wholeFrom(1, slots.length),
    reuseFor: durationFrom(1),
    idleFor: durationFrom(0),
  } satisfies Checks<PermitPoolOptions>);
  if (paceMs !== undefined) {
    refuseBeside('PermitPool', 'a pace', 'it reuses a permit at once. Call the SemaphoreClient itself');
  }
  return {
    max,
    mayGrowTo: options.max ?? Number.POSITIVE_INFINITY,
    reuseForMs: times.reuseFor ?? (perKey === undefined ? DEFAULT_REUSE_MS : DEFAULT_KEYED_REUSE_MS),
    idleForMs: times.idleFor ?? DEFAULT_IDLE_MS,
    retireAfterMs: SERVING * (renewEveryMs === false ? Math.min(leaseMs, maxHoldMs) : maxHoldMs),
  };
}

/** Callers share the semaphore's permits, one each, so the other options of an acquire are not theirs. */
const CALL = {
  timeout: ACQUIRE_CHECKS.timeout,
  priority: ACQUIRE_CHECKS.priority,
  purpose: ACQUIRE_CHECKS.purpose,
  key: checkKey,
  signal: abortSignal,
} satisfies Checks<PoolAcquireOptions>;

/** Checks what was given and fills in the rest. @throws InvalidOptionsError */
export function resolvePoolCall(options: PoolAcquireOptions = {}): PoolCall {
  const { timeout: timeoutMs = Number.POSITIVE_INFINITY, priority, purpose, key, signal } = checkOptions(options, CALL);
  return { timeoutMs, priority, purpose, key, signal };
}
