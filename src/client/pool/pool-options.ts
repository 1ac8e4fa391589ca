import type { Duration } from '@temporalio/common';
import { refuse } from '../../shared/invalid-options';
import { durationMs, type ResolvedAcquire, resolveAcquire } from '../../shared/options';
import { refusePace } from '../../shared/pace';
import type { ClientAcquireOptions, Request } from '../options';
import type { PoolRules } from './pool-state';

/** How a permit pool holds its permits. */
export interface PermitPoolOptions {
  /** The most permits that the pool holds at once, from 1 to the number of slots. @default the number of slots */
  max?: number;
  /**
   * How long a permit serves this process while others wait that have fewer. It goes back at the end of the call that passes this
   * time; after twice this time where another pool would only have as many as this one had. While nobody else waits, it serves on. At least 1 ms; below a few hand-offs (0.1 s each) the pool does little but hand over.
   * @default 1 second
   */
  reuseFor?: Duration;
  /** How long the pool keeps a permit that no call uses; from 0. @default 200 ms */
  idleFor?: Duration;
}

/**
 * The options of one caller of a pool. `lease`, `renewEvery` and `maxHold` are the semaphore's: callers share its permits.
 *
 * Of `priority`, callers in one process heed the `priorityKey`. `purpose` is shown at the server when the pool asks for a
 * permit on behalf of this caller. Later callers under the same permit do not change it.
 */
export type PoolAcquireOptions = Pick<ClientAcquireOptions, 'timeout' | 'priority' | 'purpose' | 'signal'>;

export interface PoolRequest extends ResolvedAcquire {
  readonly signal: AbortSignal | undefined;
}

/** Callers share their permits, one each, so they can't set these. */
const SEMAPHORES = [
  'lease',
  'renewEvery',
  'maxHold',
  'key',
  'permits',
  'maxWaiting',
  'attempts',
  'preemptible',
  'preempt',
] as const;

const DEFAULT_REUSE_MS = 1_000;
const DEFAULT_IDLE_MS = 200;

/** A permit serves for this part of its longest time: the rest is left to its last call. */
const SERVING = 0.5;

/** Checks what was given and fills in the rest. @throws InvalidOptionsError */
export function resolvePool(
  { slots, perKey, paceMs, leaseMs, renewEveryMs, maxHoldMs }: Request['semaphore'],
  options: PermitPoolOptions = {},
): Omit<PoolRules, 'id'> {
  if (typeof options !== 'object' || options === null) refuse('options', 'an object', options);
  if (perKey !== undefined) refuse('semaphore', 'one without perKey: callers of a pool share its permits', 'perKey');
  refusePace(paceMs);
  const { max = slots.length } = options;
  if (!Number.isInteger(max) || max < 1 || max > slots.length) {
    refuse('max', `a whole number from 1 to the number of slots (${slots.length})`, max);
  }
  return {
    max,
    reuseForMs: durationMs('reuseFor', options.reuseFor, 1) ?? DEFAULT_REUSE_MS,
    idleForMs: durationMs('idleFor', options.idleFor, 0) ?? DEFAULT_IDLE_MS,
    retireAfterMs: SERVING * (renewEveryMs === false ? Math.min(leaseMs, maxHoldMs) : maxHoldMs),
  };
}

/** Checks what was given and fills in the rest. @throws InvalidOptionsError */
export function resolvePoolRequest(options: PoolAcquireOptions = {}): PoolRequest {
  const request = resolveAcquire(options);
  const { signal } = options;
  if (signal !== undefined && !(signal instanceof AbortSignal)) refuse('signal', 'an AbortSignal', typeof signal);
  for (const key of SEMAPHORES) {
    const given = (options as ClientAcquireOptions)[key];
    if (given !== undefined) refuse(key, "nothing: callers of a pool share the semaphore's permits, one each", given);
  }
  return { ...request, signal };
}
