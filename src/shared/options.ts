import type { Duration, Priority } from '@temporalio/common';
import { msToNumber } from '@temporalio/common/lib/time';
import { refuse } from './invalid-options';
import { checkKey, checkPerKey, type PerKey } from './key-pool';
import { type Pace, resolvePace } from './pace';
import { byteLength, checkResource, checkSlot } from './permit-id';
import { type PreemptionOptions, type ResolvedPreemption, resolvePreemption } from './preemption';
import { longestHoldMs } from './run-limits';
import { type ResolvedLimits, resolveLimits } from './saturation';
import { type Slots, slotNames } from './slots';

/** A semaphore's slots, and how long a holder may be silent. All acquirers of one resource must agree on the slots. */
export interface SemaphoreOptions {
  /** How many permits there are: slots `"0"` to `"N-1"`, at most 1,000. Give either this or `slots`. */
  capacity?: number;
  /** Named slots, for things that differ: `['gpu-a', 'gpu-b']`. Give either this or `capacity`. */
  slots?: readonly string[];
  /**
   * How many of the permits one key may have, such as 2 for each tenant of 20 in all. Every acquire then names its `key`. All
   * acquirers must agree on it, as on the slots. @default no limit
   */
  perKey?: number;
  /**
   * How long a holder may be silent before its permit ends by itself. It counts from the claim, and again from each renewal.
   * @default 10 minutes in Workflows, 30 seconds outside
   */
  lease?: Duration;
  /**
   * The time between two renewals while a holder works; below `lease`, and outside Workflows below nine tenths of it, after which a
   * holder has to stop. `false` never renews: the lease bounds the hold, unless the holder renews it by
   * `permit.renew()`.
   * @default a third of the lease
   */
  renewEvery?: Duration | false;
  /** The task queue on which permits run. Its workers must have this package's Workflows. @default the caller's */
  taskQueue?: string;
  /**
   * The server ends a permit after this time, whatever happens (its `workflowExecutionTimeout`); at least `lease`. The server
   * takes 10,000 signals and 51,200 events of one run, and renewals use them up. So the longest hold is 18 hours with a lease of
   * 30 seconds (12 in a Workflow, where renewals add events too), 5 days with a lease of 10 minutes, and 8 days without renewals.
   * A longer `maxHold` is refused.
   * @default 24 hours, or the longest hold that the renewals allow
   */
  maxHold?: Duration;
  /**
   * A slot is not given again before this time has passed since it was taken, whatever its holder does and whether it dies: N slots
   * give at most N starts in any time of `every`. A holder that is done does not wait for it. All acquirers must agree on it, as on
   * the slots. In a Workflow that ends, the permit is released, not terminated. Not for permits that are reused (`PermitPool`,
   * `mapWithPermits`). See `docs/pacing.md`. The idea is epocxy's fount.
   * @default none: a slot is free when it is released
   */
  pace?: Pace;
  /**
   * Strict order: an acquirer lines up behind the present waiters, and tries a slot by itself only when nobody waits. It costs
   * every acquire one more step. Without it, a newcomer may win a slot in the moment between two holders. The idea is that of
   * `java.util.concurrent.Semaphore`.
   * @default false
   */
  fair?: boolean;
  /**
   * How long a parked waiter hears nothing before it asks the queue for a sign of life, and starts a new queue if it is gone.
   * Once the queue has answered, the waiter asks again after 20 to 25 times this. If no answer comes within this time, the waiter
   * takes the queue for stuck: it tries a few slots each time this has passed, the next ones in turn.
   * @default 30 seconds (so 10 minutes to 4 hours while the queue answers)
   */
  recheckAfter?: Duration;
}

/** The options of one acquire. */
export interface AcquireOptions extends PreemptionOptions {
  /** How long to wait for a permit, from the call on. `0` tries every slot once. @default for ever */
  timeout?: Duration;
  /**
   * The longest line that it joins: it throws `LineFullError` at once when so many wait already, at least 1. A waiter that has its
   * turn does not count. The wait queue checks it: a queue whose worker is gone refuses nobody. An acquirer whose place was lost with
   * a terminated queue may be refused later too.
   * @default no limit but the queue's own of 2,000, at which an acquire goes on trying
   */
  maxWaiting?: number;
  /**
   * Try only so many slots, each at most once and in random order, and do not wait; at least 1. In a large pool it costs less than
   * `timeout: 0`, which tries every slot.
   * @default every slot, and then wait
   */
  attempts?: number;
  /**
   * The rank among waiters, as Temporal's own `Priority`: by `priorityKey` (1 is served first), then by weighted fairness between
   * `fairnessKey`s, then by arrival. @default in a Workflow its own priority; outside `priorityKey` 3
   */
  priority?: Priority;
  /** Whose permit it is, where the semaphore has a limit `perKey`: a tenant, a customer. In a set, the entry names it instead. */
  key?: string;
  /**
   * How many permits, all or none; at most the capacity. In a set, the entry says it instead.
   * @default 1
   */
  permits?: number;
  /** The permit's purpose, shown to operators beside the holder; at most 1,000 characters. */
  purpose?: string;
  /**
   * Lets the permit outlive this Workflow run, so that the next run or another Workflow can adopt it: hand over `permit.ref()`.
   * The price: when this run ends without a release, the slot stays taken until the lease ends. A permit outside Workflows always
   * works so.
   * @default false: the permit ends with this run, also when that continues as new
   */
  outlivesRun?: boolean;
}

/** Checked {@link SemaphoreOptions}, with every default filled in. */
export interface ResolvedSemaphore {
  readonly resource: string;
  readonly slots: readonly string[];
  /** The slots in the form of a ticket. */
  readonly compactSlots: Slots;
  readonly perKey: PerKey | undefined;
  readonly leaseMs: number;
  readonly renewEveryMs: number | false;
  readonly maxHoldMs: number;
  readonly paceMs: number | undefined;
  readonly taskQueue: string | undefined;
  readonly fair: boolean;
  readonly recheckAfterMs: number;
}

/** Checked {@link AcquireOptions}. */
export interface ResolvedAcquire extends ResolvedLimits, ResolvedPreemption {
  readonly timeoutMs: number;
  readonly key: string | undefined;
  readonly permits: number | undefined;
  readonly purpose: string | undefined;
  readonly priority: Priority | undefined;
  readonly outlivesRun: boolean;
}

export const MAX_SLOTS = 1_000;
const MAX_PURPOSE_LENGTH = 1_000;
const MINUTE_MS = 60_000;
const DAY_MS = 24 * 60 * MINUTE_MS;
/** The longest duration that an option may have: deadlines stay exact, and the server accepts the timer. */
export const MAX_DURATION_MS = 10 * 365 * DAY_MS;

/** Checks the options and fills in the defaults. @throws InvalidOptionsError */
export function resolveSemaphore(
  resource: string,
  options: Omit<SemaphoreOptions, 'perKey'> & { perKey?: PerKey },
  defaults: { leaseMs: number; inWorkflow?: boolean },
): ResolvedSemaphore {
  checkResource(resource);
  if (typeof options !== 'object' || options === null) refuse('options', 'an object', options);
  const slots = resolveSlots(resource, options);
  const leaseMs = durationMs('lease', options.lease, 1) ?? defaults.leaseMs;
  const renewEveryMs =
    options.renewEvery === false
      ? false
      : (durationMs('renewEvery', options.renewEvery, 1) ?? Math.max(1, Math.floor(leaseMs / 3)));
  const longestMs = longestHoldMs(leaseMs, renewEveryMs, defaults.inWorkflow);
  const givenMaxHoldMs = durationMs('maxHold', options.maxHold, 1);
  const paceMs = resolvePace(options.pace, givenMaxHoldMs ?? longestMs);
  const maxHoldMs = givenMaxHoldMs ?? Math.min(longestMs, Math.max(DAY_MS, Math.max(leaseMs, paceMs ?? 0) + MINUTE_MS));
  const recheckAfterMs = durationMs('recheckAfter', options.recheckAfter, 1) ?? 30_000;
  const { taskQueue, fair = false, perKey } = options;

  if (renewEveryMs !== false && renewEveryMs >= leaseMs) {
    refuse('renewEvery', `less than the lease (${leaseMs} ms)`, options.renewEvery ?? renewEveryMs);
  }
  if (longestMs < leaseMs) {
    if (options.renewEvery) {
      refuse(
        'renewEvery',
        `a value so long that the server takes all renewals of one lease (${leaseMs} ms)`,
        renewEveryMs,
      );
    }
    refuse('lease', `at most ${longestMs} ms, the longest possible hold with these renewals`, options.lease ?? leaseMs);
  }
  if (maxHoldMs > longestMs) {
    refuse(
      'maxHold',
      `at most ${longestMs} ms, the most that ${renewEveryMs === false ? 'one run' : `renewals every ${renewEveryMs} ms`} allow`,
      options.maxHold,
    );
  }
  if (maxHoldMs < leaseMs) refuse('maxHold', `at least the lease (${leaseMs} ms)`, options.maxHold);
  if (taskQueue !== undefined && (typeof taskQueue !== 'string' || taskQueue === '')) {
    refuse('taskQueue', 'a non-empty string', taskQueue);
  }
  if (typeof fair !== 'boolean') refuse('fair', 'a boolean', fair);
  checkPerKey(resource, perKey, MAX_SLOTS);
  const compactSlots = options.capacity ?? [...slots];
  return {
    resource,
    slots,
    compactSlots,
    perKey,
    leaseMs,
    renewEveryMs,
    maxHoldMs,
    paceMs,
    taskQueue,
    fair,
    recheckAfterMs,
  };
}

/** Checks the options and fills in the defaults. @throws InvalidOptionsError */
export function resolveAcquire(options: AcquireOptions = {}): ResolvedAcquire {
  if (typeof options !== 'object' || options === null) refuse('options', 'an object', options);
  const { key, permits, purpose, priority, outlivesRun = false } = options;
  checkKey(key);
  checkPermits(permits);
  const givenMs = durationMs('timeout', options.timeout, 0);
  const { maxWaiting, attempts } = resolveLimits(options, givenMs);
  const timeoutMs = givenMs ?? (attempts === undefined ? Number.POSITIVE_INFINITY : 0);
  if (purpose !== undefined && (typeof purpose !== 'string' || purpose.length > MAX_PURPOSE_LENGTH)) {
    refuse('purpose', `a string of at most ${MAX_PURPOSE_LENGTH} characters`, purpose);
  }
  checkPriority(priority);
  if (typeof outlivesRun !== 'boolean') refuse('outlivesRun', 'a boolean', outlivesRun);
  if (outlivesRun) checkNoKey(key);
  const graceMs = durationMs('preemptible.grace', options.preemptible?.grace, 1);
  const preemption = resolvePreemption(options, { timeoutMs, key, permits, priority, graceMs });
  return { timeoutMs, maxWaiting, attempts, key, permits, purpose, priority, outlivesRun, ...preemption };
}

/** A permit that may be handed over has no key: the permit of the key stands behind it, and nobody could adopt that. */
export function checkNoKey(key: string | undefined): void {
  if (key !== undefined) refuse('outlivesRun', 'false beside key', true);
}

/** The pool's capacity is checked where the pool is known. */
export function checkPermits(permits: unknown): asserts permits is number | undefined {
  if (permits === undefined || (Number.isInteger(permits) && (permits as number) >= 1)) return;
  refuse('permits', 'a whole number from 1', permits);
}

/** The greatest that Temporal's API has room for. */
const MAX_PRIORITY_KEY = 2 ** 31 - 1;

/** Checks Temporal's own bounds. An absent or zero field means "inherit", as in Temporal. */
function checkPriority(priority: Priority | undefined): void {
  if (priority === undefined) return;
  if (typeof priority !== 'object' || priority === null) refuse('priority', "Temporal's Priority", priority);
  const { priorityKey = 0, fairnessKey = '', fairnessWeight = 0 } = priority;
  if (!Number.isInteger(priorityKey) || priorityKey < 0 || priorityKey > MAX_PRIORITY_KEY) {
    refuse('priority.priorityKey', `a whole number from 1 to ${MAX_PRIORITY_KEY}`, priorityKey);
  }
  if (typeof fairnessKey !== 'string' || byteLength(fairnessKey) > 64) {
    refuse('priority.fairnessKey', 'a string of at most 64 bytes', fairnessKey);
  }
  if (!(fairnessWeight === 0 || (fairnessWeight >= 0.001 && fairnessWeight <= 1_000))) {
    refuse('priority.fairnessWeight', 'a number from 0.001 to 1000', fairnessWeight);
  }
}

/** Checks the slots, and gives their names. @throws InvalidOptionsError */
export function resolveSlots(
  resource: string,
  { capacity, slots }: Pick<SemaphoreOptions, 'capacity' | 'slots'>,
): readonly string[] {
  if ((capacity === undefined) === (slots === undefined)) {
    refuse('options', 'exactly one of "capacity" and "slots"', { capacity, slots });
  }
  if (slots === undefined) {
    if (!Number.isInteger(capacity) || (capacity as number) < 1 || (capacity as number) > MAX_SLOTS) {
      refuse('capacity', `a whole number from 1 to ${MAX_SLOTS}`, capacity);
    }
    return checkSlots(resource, slotNames(capacity as number));
  }
  if (!Array.isArray(slots) || slots.length < 1 || slots.length > MAX_SLOTS) {
    refuse('slots', `an array of 1 to ${MAX_SLOTS} slot names`, slots);
  }
  return checkSlots(resource, [...slots]);
}

function checkSlots(resource: string, slots: readonly string[]): readonly string[] {
  for (const slot of slots) checkSlot(resource, slot);
  if (new Set(slots).size !== slots.length) refuse('slots', 'distinct slot names', slots);
  return slots;
}

/** A duration in whole milliseconds, rounded up; `undefined` when absent, so that the caller can put its default. */
export function durationMs(what: string, value: Duration | undefined, leastMs: number): number | undefined {
  if (value === undefined) return undefined;
  const expected = `a duration of ${leastMs} ms or more, as a number of milliseconds or a string like "30s"`;
  let ms: number;
  try {
    ms = Math.ceil(msToNumber(value));
  } catch {
    return refuse(what, expected, value);
  }
  if (!(ms >= leastMs && ms <= MAX_DURATION_MS)) refuse(what, expected, value);
  return ms;
}
