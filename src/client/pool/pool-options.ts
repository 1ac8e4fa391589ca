import type { Duration } from '@temporalio/common';
import { type Checks, checkOptions, durationFrom, refuseBeside, wholeFrom } from '../../shared/check';
import { ACQUIRE_CHECKS, checkKey, type ResolvedAcquire, type ResolvedSemaphore } from '../../shared/options';
import { abortSignal, type ClientAcquireOptions } from '../holder/options';
import type { PoolRules } from './pool-state';

/** How a permit pool holds its permits. */
export interface PermitPoolOptions {
  /**
   * The most permits that the pool holds at once, from 1 to the number of slots; this also limits the permits of each key.
   * @default the number of slots, including those that an operator has added
   */
  max?: number | undefined;
  /**
   * How long a permit serves this process while others wait that have fewer permits. The permit goes back at the end of the first call that
   * ends after this time; after twice this time if giving it back would only swap the shares of two pools. While no other caller waits, the
   * permit serves on. At least 1 ms; if this is shorter than a few hand-offs, the pool does little but hand over.
   * @default 1 second; 3 seconds with a limit `perKey`, since a hand-over then moves two permits
   */
  reuseFor?: Duration | undefined;
  /** How long the pool keeps a permit that no call uses; from 0. @default 200 ms */
  idleFor?: Duration | undefined;
}

/**
 * The options of one caller of a pool. `lease`, `renewEvery` and `maxHold` are the semaphore's: callers share its permits.
 *
 * Callers in one process are served by the `priorityKey` of their `priority`. The queue heeds the whole `priority` of the caller for whom the
 * pool asks. The server shows the `purpose` of the caller for whom the pool acquired the permit; later callers under the same permit do not
 * change it.
 */
export type PoolAcquireOptions = Pick<ClientAcquireOptions, 'timeout' | 'priority' | 'purpose' | 'key' | 'signal'>;

/** Checked {@link PoolAcquireOptions}. */
export interface PoolCall extends Pick<ResolvedAcquire, 'timeoutMs' | 'priority' | 'purpose' | 'key'> {
  readonly signal: AbortSignal | undefined;
}

const DEFAULT_REUSE_MS = 1_000;
const DEFAULT_KEYED_REUSE_MS = 3_000;
const DEFAULT_IDLE_MS = 200;

/** A permit serves for this part of its longest hold: the rest is left to its last call. */
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
