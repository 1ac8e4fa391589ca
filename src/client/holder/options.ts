import type { MetricMeter } from '@temporalio/common';
import type { Check } from '../../shared/check';
import { refuse, refuseBeside, refuseKind } from '../../shared/check';
import { durationText } from '../../shared/duration';
import { noticeMsOf } from '../../shared/lease';
import {
  type AcquireOptions,
  type PerKey,
  type ResolvedAcquire,
  type ResolvedSemaphore,
  resolveAcquire,
  resolveSemaphore,
  resolveSetAcquire,
  type SemaphoreOptions,
  type SetOptions,
} from '../../shared/options';
import type { PermitRef } from '../../shared/protocol';
import { type Caller, type PartOfSet, type Request, requestOf } from '../../shared/request';
import { purposeHere } from './purpose-here';

/** What a semaphore is, for a client. */
export interface SemaphoreClientOptions extends Omit<SemaphoreOptions, 'perKey'> {
  /** As {@link SemaphoreOptions.perKey}; or a function that returns the limit of each key. */
  perKey?: PerKey | undefined;
  /**
   * The meter that counts acquires, hand-offs and lost permits. In a worker's process, take `Runtime.instance().metricMeter`; a
   * client has no meter of its own. The workers that run the permits measure how long each is held.
   * @default none
   */
  metricMeter?: MetricMeter | undefined;
}

/** The options of one acquire outside Workflows. */
export interface ClientAcquireOptions extends Omit<AcquireOptions, 'outlivesRun'> {
  /** Stops the wait: the acquire rejects with the signal's reason. It has no effect on a permit once acquired. */
  signal?: AbortSignal | undefined;
}

/** The options of `withPermit` outside Workflows. */
export interface ClientWithPermitOptions extends ClientAcquireOptions {
  /**
   * Runs the function under this permit instead of a new one, and takes the permit over as `SemaphoreClient.adopt` does. The options of the
   * wait then have no effect.
   * @default undefined: it acquires a permit
   */
  adopt?: PermitRef | undefined;
}

/** The options of one acquire of several permits outside Workflows. */
export type ClientSetOptions = SetOptions<ClientAcquireOptions>;

/** The checked options of one acquire outside Workflows. */
export interface ResolvedClientAcquire extends ResolvedAcquire {
  readonly signal: AbortSignal;
}

/** One acquire of a client, checked: see {@link Request}. */
export interface ClientRequest extends Request {
  readonly signal: AbortSignal;
  /** From when its timeout counts, on the monotonic clock. */
  readonly fromMs: number;
}

const DEFAULT_LEASE_MS = 30_000;

export const abortSignal: Check<AbortSignal> = (value, what) =>
  value instanceof AbortSignal ? value : refuseKind(what, 'an AbortSignal', value);

/** The options that only a client has, and those that it refuses. */
const CLIENT = {
  signal: abortSignal,
  outlivesRun: (value: unknown) =>
    value === false || refuseBeside('outlivesRun', 'a SemaphoreClient', 'its permits belong to no Workflow run'),
};

/** Checks what was given and fills in the rest. @throws InvalidOptionsError */
export function resolveClientSemaphore(resource: string, options: SemaphoreClientOptions): ResolvedSemaphore {
  const { metricMeter, before: _before, ...given } = options ?? {};
  const resolved = resolveSemaphore(resource, options && given, { leaseMs: DEFAULT_LEASE_MS });
  const { leaseMs, renewEveryMs } = resolved;
  const safeMs = leaseMs - noticeMsOf(leaseMs);
  if (renewEveryMs !== false && renewEveryMs >= safeMs) {
    refuse(
      'renewEvery',
      `less than nine tenths of the lease (${durationText(safeMs)}), after which the holder has to stop`,
      options.renewEvery,
    );
  }
  if (metricMeter !== undefined && typeof metricMeter?.createHistogram !== 'function') {
    refuseKind('metricMeter', 'a MetricMeter of @temporalio/common', metricMeter);
  }
  return resolved;
}

/** Checks the options of one acquire, and fills in the defaults. @throws InvalidOptionsError */
export function resolveClientAcquire(
  semaphore: ResolvedSemaphore,
  options: ClientAcquireOptions | undefined,
): ResolvedClientAcquire {
  return withDefaults(resolveAcquire(semaphore, options, CLIENT), options);
}

/** Checks the options of one acquire of several permits, and fills in the defaults. @throws InvalidOptionsError */
export function resolveClientSet(options: ClientSetOptions | undefined): ResolvedClientAcquire {
  return withDefaults(resolveSetAcquire(options, CLIENT), options);
}

function withDefaults(
  acquire: ResolvedAcquire,
  // The SDK and the acquirer only listen, so a signal that never aborts is enough.
  { signal = new AbortController().signal }: Pick<ClientAcquireOptions, 'signal'> = {},
): ResolvedClientAcquire {
  return { ...acquire, purpose: acquire.purpose ?? purposeHere(), signal };
}

/** Makes the request of one acquire. */
export function clientRequestOf(
  semaphore: ResolvedSemaphore,
  acquire: ResolvedClientAcquire,
  caller: Caller,
  fromMs: number,
  part?: PartOfSet,
): ClientRequest {
  return { ...requestOf(semaphore, acquire, caller, part), signal: acquire.signal, fromMs };
}
