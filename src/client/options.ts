import type { Duration, MetricMeter } from '@temporalio/common';
import { refuse } from '../shared/invalid-options';
import type { PerKey } from '../shared/key-pool';
import { noticeMsOf } from '../shared/lease';
import {
  type AcquireOptions,
  type ResolvedAcquire,
  type ResolvedSemaphore,
  resolveAcquire,
  resolveSemaphore,
  type SemaphoreOptions,
} from '../shared/options';
import type { PoolShare } from '../shared/pool-protocol';
import { checkGrace, checkNoPreemption } from '../shared/preemption';
import type { SaturationOptions } from '../shared/saturation';
import type { Rank } from '../shared/ticket';
import { monotonicMs } from './clock';
import type { Permit } from './holder/permit';

/** What a semaphore is, for a client. */
export interface SemaphoreClientOptions extends Omit<SemaphoreOptions, 'perKey'> {
  /** As {@link SemaphoreOptions.perKey}; or a function that gives each key a limit of its own. */
  perKey?: PerKey;
  /** The task queue on which permits and waiters run: of a permit worker, or of any that exports this package's Workflows. */
  taskQueue: string;
  /**
   * The meter that counts acquires, hand-offs and lost permits. In a worker's process, take `Runtime.instance().metricMeter`; a
   * client has no meter of its own. The workers that run the permits measure how long each is held.
   * @default none
   */
  metricMeter?: MetricMeter;
}

/** The options of one acquire outside Workflows. */
export interface ClientAcquireOptions extends Omit<AcquireOptions, 'outlivesRun'> {
  /** Stops the wait: the acquire rejects with the signal's reason. It has no effect on a permit once acquired. */
  signal?: AbortSignal;
  /** As the semaphore's option, for this permit only. @default the semaphore's */
  lease?: Duration;
  /** As the semaphore's option, for this permit only. @default the semaphore's, or a third of the `lease` given here */
  renewEvery?: Duration | false;
  /** As the semaphore's option, for this permit only. @default the semaphore's, or the default for the `lease` given here */
  maxHold?: Duration;
}

/** The options of one acquire, and what to do when no slot is free. */
export type ClientWithPermitOptions = ClientAcquireOptions & SaturationOptions;

/** A moment in epoch milliseconds, for others, and on the monotonic clock, for oneself. */
export interface Moment {
  readonly epochMs: number;
  readonly monotonicMs: number;
}

export function thisMoment(): Moment {
  return { epochMs: Date.now(), monotonicMs: monotonicMs() };
}

/** One acquire, checked, with every default filled in. */
export interface Request extends ResolvedAcquire {
  readonly semaphore: ResolvedSemaphore & { readonly taskQueue: string };
  readonly signal: AbortSignal;
  /** When the caller began to wait, for this permit or for those before it. */
  readonly since: Moment;
  /** Lines up again with the old place, when the permit was given up. Absent for one of a set, or of a permit pool. */
  readonly again?: () => Promise<Permit>;
  /** Where one of a set is wanted: how those that are kept rank it. */
  readonly rank?: Rank;
  /** Where a permit pool asks. */
  readonly pool?: PoolShare;
}

const DEFAULT_LEASE_MS = 30_000;

/** A shorter one may be over when the answer to the claim comes. */
const LEAST_LEASE_MS = 100;

/** Checks what was given and fills in the rest. @throws InvalidOptionsError */
export function resolveClientSemaphore(resource: string, options: SemaphoreClientOptions): Request['semaphore'] {
  const resolved = resolveSemaphore(resource, options, { leaseMs: DEFAULT_LEASE_MS });
  const { taskQueue, leaseMs, renewEveryMs } = resolved;
  if (leaseMs < LEAST_LEASE_MS) refuse('lease', `at least ${LEAST_LEASE_MS} ms outside Workflows`, options.lease);
  const safeMs = leaseMs - noticeMsOf(leaseMs);
  if (renewEveryMs !== false && renewEveryMs >= safeMs) {
    refuse(
      'renewEvery',
      `less than nine tenths of the lease (${safeMs} ms): then the holder has to stop`,
      renewEveryMs,
    );
  }
  if (taskQueue === undefined) refuse('taskQueue', 'a non-empty string', taskQueue);
  const { metricMeter } = options;
  if (metricMeter !== undefined && typeof metricMeter?.createHistogram !== 'function') {
    refuse('metricMeter', 'a MetricMeter of @temporalio/common', typeof metricMeter);
  }
  return { ...resolved, taskQueue };
}

/** How a permit of this lease is renewed once it is adopted: the client's own `renewEvery` counts where it fits. @throws InvalidOptionsError */
export function resolveAdoption(
  resource: string,
  options: SemaphoreClientOptions,
  leaseMs: number,
  renewEvery: SemaphoreClientOptions['renewEvery'],
): Request['semaphore'] {
  const adopted = { ...options, lease: leaseMs, maxHold: undefined }; // the permit has its own
  if (renewEvery !== undefined || options.renewEvery === undefined) {
    return resolveClientSemaphore(resource, { ...adopted, renewEvery });
  }
  const { renewEveryMs } = resolveClientSemaphore(resource, options);
  const fits = renewEveryMs === false || renewEveryMs < leaseMs - noticeMsOf(leaseMs);
  return resolveClientSemaphore(resource, { ...adopted, renewEvery: fits ? renewEveryMs : undefined });
}

/** Checks what was given and fills in the rest. @throws InvalidOptionsError */
export function resolveRequest(
  resource: string,
  defaults: SemaphoreClientOptions,
  options: ClientAcquireOptions = {},
  since = thisMoment(),
): Request {
  const request = resolveAcquire(options);
  const { signal = new AbortController().signal, lease, renewEvery, maxHold } = options;
  if (!(signal instanceof AbortSignal)) refuse('signal', 'an AbortSignal', typeof signal);
  const semaphore = resolveClientSemaphore(resource, {
    ...defaults,
    lease: lease ?? defaults.lease,
    // The semaphore's own `renewEvery` and `maxHold` fit its own lease only.
    renewEvery: renewEvery ?? (lease === undefined ? defaults.renewEvery : undefined),
    maxHold: maxHold ?? (lease === undefined ? defaults.maxHold : undefined),
  });
  if (semaphore.perKey !== undefined) checkNoPreemption(request);
  checkGrace(request, semaphore);
  return { ...request, semaphore, signal, since };
}
