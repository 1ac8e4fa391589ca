import type { Duration, Priority } from '@temporalio/common';
import {
  asIs,
  boolean,
  type Check,
  type Checked,
  type Checks,
  checkOptions,
  durationFrom,
  InvalidOptionsError,
  MAX_DURATION_MS,
  nonEmpty,
  refuse,
  refuseBeside,
  saying,
  show,
  textWithin,
  wholeFrom,
} from './check';
import { durationText } from './duration';
import { MAX_KEYED_RESOURCE_BYTES } from './key-names';
import { checkResource, checkSlot, isRunId, permitId } from './permit-id';
import { checkPriority } from './priority';
import type { PermitRef } from './protocol';
import { DEFAULT_TASK_QUEUE, type PreemptionTerms, type SlotsMark } from './protocol';
import { longestHoldMs } from './run-limits';
import { MAX_SLOTS, type Slots, slotNames, slotsMark } from './slots';
import { byteLength } from './utf8';

/** How often a slot is given. */
export interface Pace {
  /** The least time from one start on a slot to the next; 1 ms or more. */
  every: Duration;
}

/** How many permits each key may have: the same number for all keys, or the number that a function returns for the key. */
export type PerKey = number | ((key: string) => number);

/** A semaphore's slots, and how long a holder may be silent. All acquirers of one resource must agree on the slots. */
export interface SemaphoreOptions {
  /**
   * How many permits there are: slots `"0"` to `"N-1"`, at most 1,000. Give either this or `slots`. Another number in Workflow code breaks
   * the Workflows that hold or wait, unless {@link before} names the old one; `resize` changes it without a deploy.
   */
  capacity?: number | undefined;
  /** The names of the slots, if they differ: `['gpu-a', 'gpu-b']`. Give either this or `capacity`. */
  slots?: readonly string[] | undefined;
  /**
   * How many of the permits one key may have, such as 2 for each tenant of 20 in all. Every acquire then names its `key`. All
   * acquirers must agree on it, as on the slots. @default no limit
   */
  perKey?: number | undefined;
  /**
   * How long a holder may be silent before its permit ends automatically; at least 100 ms. The time starts with the claim, and again with
   * each renewal.
   * @default 10 minutes in Workflows, 30 seconds outside
   */
  lease?: Duration | undefined;
  /**
   * The time between two renewals while a holder works; less than `lease`, and outside Workflows less than nine tenths of it, after which a
   * holder has to stop. With `false`, the lease is never renewed, and so bounds the hold, unless the holder calls `permit.renew()`.
   * @default a third of the lease
   */
  renewEvery?: Duration | false | undefined;
  /**
   * The task queue on which permits run: a permit worker polls it (`SemaphorePlugin`, `createPermitWorker` or `temporal-semaphore
   * worker`), or your own worker, if its Workflows file has `export * from 'temporal-semaphore/workflows'`.
   * @default "permits"
   */
  taskQueue?: string | undefined;
  /**
   * The server ends a permit after this time, whatever happens (its `workflowExecutionTimeout`); at least `lease`. The server
   * takes 10,000 signals and 51,200 events of one run, and renewals use them up. So the longest hold is 18 hours with a lease of
   * 30 seconds (12 in a Workflow, where renewals add events too), 5 days with a lease of 10 minutes, and 8 days without renewals.
   * A longer `maxHold` is refused.
   * @default 24 hours, or the longest hold that the renewals allow
   */
  maxHold?: Duration | undefined;
  /**
   * The shortest time between two starts on one slot: the slot is not given again earlier, even if its holder is done or dies. So N slots
   * give at most N starts in any time of `every`. A holder that is done does not wait for the rest of the time. All acquirers must agree on the
   * pace, as on the slots. When a Workflow ends, its permit is released, not terminated. A `PermitPool` refuses a pace, because it reuses permits.
   *
   * In a namespace whose name has the form of Temporal Cloud's, `<name>.<account>`, each slot has a pace of at least one second, because
   * Temporal Cloud starts Workflows with the same ID only once a second. `false` is for your own server with such a namespace.
   * @default none: a slot is free when it is released; one second in such a namespace
   */
  pace?: Pace | false | undefined;
  /**
   * Strict order: an acquirer queues behind the present waiters, and tries a slot directly only if no caller waits. This costs
   * every acquire one more step. Without `fair`, a newcomer may win a slot in the moment between two holders.
   * @default false
   */
  fair?: boolean | undefined;
  /**
   * A `withPermit` inside another `withPermit` of this resource (and key), in the same Workflow or async context, runs under the outer
   * permit: it costs nothing, and has the outer permit's token. Without `reentrant`, such a call takes another permit, or fails with a
   * `SelfDeadlockError` if it would wait for itself.
   * @default false
   */
  reentrant?: boolean | undefined;
  /**
   * How long a parked waiter goes without a message before it probes the queue, and starts a new queue if the queue is gone.
   * Once the queue has answered, the waiter probes again after 20 to 25 times this time. If no answer comes within this time, the waiter
   * takes the queue for stuck: each time this time has passed, it tries a few slots, in rotation.
   * @default 30 seconds (so 10 minutes to 4 hours while the queue answers)
   */
  recheckAfter?: Duration | undefined;
  /**
   * What these options were before a deploy of Workflow code changed them, the latest values first:
   * `{ capacity: 4, before: [{ capacity: 5 }, { capacity: 3 }] }`. An entry names only the options that were different; `undefined` means that
   * the option was absent. An acquire that began before the deploy goes on with the old values, so that its history replays; a later acquire
   * uses the new values. Deploy an entry together with the change, and remove it when no run is left that began before. Meanwhile, each run
   * that acquires marks its history with `patched`, which is two events. Clients ignore `before`.
   * @default none: no event, and a Workflow that began with other values can't go on
   */
  before?: readonly FormerOptions[] | undefined;
}

/** The options on which a Workflow's history depends, as they were before a deploy: see {@link SemaphoreOptions.before}. */
export type FormerOptions = {
  readonly [Name in 'capacity' | 'slots' | 'perKey' | 'fair' | 'pace' | 'renewEvery' | 'reentrant']?:
    | SemaphoreOptions[Name]
    | undefined;
};

/** How a holder gives way to waiters of higher priority. */
export interface PreemptibleOptions {
  /**
   * How long the holder may keep the permit after it was told to give way; at most the lease. The permit ends then, whatever the
   * holder does. The server's timers may be up to a second late.
   */
  grace: Duration;
  /**
   * The holder gives way at its own safe points, with `permit.checkpoint()`. So before the grace ends, its scope is not cancelled, and its
   * `signal` does not abort.
   * @default false
   */
  atCheckpoints?: boolean | undefined;
}

/** The options of one acquire. */
export interface AcquireOptions {
  /** How long to wait for a permit, from the call on. `0` tries every slot once. @default indefinitely */
  timeout?: Duration | undefined;
  /**
   * The longest queue that the acquire joins: it throws `LineFullError` at once if that many callers wait already; 1 or more. Waiters that have
   * their turn do not count, nor do waiters whose Workflows ended half a minute ago. The wait queue checks this limit: a queue whose worker is
   * gone refuses no caller. An acquirer whose place was lost with a terminated queue may also be refused later.
   * @default no limit but the queue's own of 10,000, at which an acquire keeps trying
   */
  maxWaiting?: number | undefined;
  /**
   * What happens when as many as `maxWaiting` wait already:
   * - `'refuse'`: this acquire throws `LineFullError`;
   * - `'drop-oldest'`: this acquire joins the queue, and a waiter with the same option is dropped: the oldest of the lowest priority, which is
   *   this acquire if its priority is lower than all others. The dropped waiter throws `LineFullError` with `superseded: true`. A caller
   *   that has a permit is never dropped, nor a waiter that has its turn. Don't retry a superseded acquire: it would come back as the newest.
   *
   * `'drop-oldest'` needs `maxWaiting`. It can't be combined with a `key` or several permits.
   * @default 'refuse'
   */
  whenFull?: 'refuse' | 'drop-oldest' | undefined;
  /**
   * The rank among waiters, as Temporal's own `Priority`: by `priorityKey` (1 is served first), then by weighted fairness between
   * `fairnessKey`s, then by arrival. It ranks waiters only: a newcomer may still take a slot that comes free, unless its semaphore is
   * {@link SemaphoreOptions.fair}. @default in a Workflow its own priority; outside `priorityKey` 3
   */
  priority?: Priority | undefined;
  /**
   * The tenant or customer that the permit is for, if the semaphore has a limit `perKey`. The holder then also has a permit of the key.
   */
  key?: string | undefined;
  /**
   * The permit's purpose, shown to operators next to the holder; at most 1,000 characters.
   * @default none; for a `SemaphoreClient` in an activity whose worker has a `SemaphorePlugin`, the activity and its Workflow
   */
  purpose?: string | undefined;
  /**
   * Lets a waiter take this permit if the waiter has a strictly higher priority and asks with `preempt`. It needs a
   * `priority.priorityKey`: only waiters with a smaller number can take the permit. It can't be combined with a `key`.
   * @default no waiter can take it
   */
  preemptible?: PreemptibleOptions | undefined;
  /**
   * While this acquire waits, a `preemptible` holder of lower priority is asked to give way: of the holders whose slots the acquire could
   * take, the holder of the lowest priority, and of equals the youngest. It needs a `priority.priorityKey`, and a wait. It can't be combined
   * with a `key`.
   * @default false
   */
  preempt?: boolean | undefined;
  /**
   * Lets the permit outlive this Workflow run, so that the next run or another Workflow can adopt it: hand over `permit.ref()`.
   * The price: when this run ends without a release, the slot stays taken until the lease ends. A permit outside Workflows always
   * works like this. It can't be combined with a `key`.
   * @default false: the permit ends with this run, even if the run continues as new
   */
  outlivesRun?: boolean | undefined;
}

/** The options of one acquire of several permits. What concerns one resource is part of its entry, and a set is not pre-empted. */
export type SetOptions<Options extends AcquireOptions = AcquireOptions> = Omit<
  Options,
  'key' | 'preempt' | 'preemptible'
>;

/** Checked {@link SemaphoreOptions}, with every default filled in. */
export interface ResolvedSemaphore {
  readonly resource: string;
  readonly slots: readonly string[];
  /** The slots in the form of a ticket. */
  readonly compactSlots: Slots;
  /** The slots in the form of a memo. */
  readonly mark: SlotsMark;
  readonly perKey: PerKey | undefined;
  readonly leaseMs: number;
  readonly renewEveryMs: number | false;
  readonly maxHoldMs: number;
  readonly paceMs: number | undefined;
  /** Whether it has no pace even if the server seems to need one. */
  readonly unpaced: boolean;
  readonly taskQueue: string;
  readonly fair: boolean;
  readonly reentrant: boolean;
  readonly recheckAfterMs: number;
  /** The same semaphore with the options of earlier deploys, the latest first. */
  readonly before: readonly ResolvedSemaphore[];
}

/** Checked {@link AcquireOptions}. */
export interface ResolvedAcquire {
  readonly timeoutMs: number;
  readonly maxWaiting: number | undefined;
  /** `undefined`: the acquire is refused. */
  readonly whenFull: 'drop-oldest' | undefined;
  readonly key: string | undefined;
  readonly purpose: string | undefined;
  readonly priority: Priority | undefined;
  readonly preempt: boolean;
  readonly preemptible: (PreemptionTerms & { readonly atCheckpoints: boolean }) | undefined;
  readonly outlivesRun: boolean;
}

export const MAX_PURPOSE_LENGTH = 1_000;
const MINUTE_MS = 60_000;
const DAY_MS = 24 * 60 * MINUTE_MS;

/** How much longer than its pace a permit must be able to run. */
const SPARE_MS = MINUTE_MS;

/** A shorter lease may be over when the answer to the claim comes. */
const LEAST_LEASE_MS = 100;

const FORMER = {
  capacity: asIs<number>(),
  slots: asIs<readonly string[]>(),
  perKey: asIs<PerKey>(),
  fair: boolean,
  pace: asIs<Pace | false>(),
  renewEvery: (value: unknown, what: string) => (value === false ? (false as const) : durationFrom(1)(value, what)),
  reentrant: boolean,
} satisfies Checks<FormerOptions>;

const SEMAPHORE = {
  ...FORMER,
  lease: durationFrom(LEAST_LEASE_MS),
  taskQueue: nonEmpty,
  maxHold: durationFrom(1),
  recheckAfter: durationFrom(1),
  before: asIs<readonly FormerOptions[]>(),
} satisfies Checks<SemaphoreOptions>;

/** The options of a semaphore of Workflows or of clients. */
type AnySemaphoreOptions = Omit<SemaphoreOptions, 'perKey'> & { perKey?: PerKey };

/** Checks the options and fills in the defaults. @throws InvalidOptionsError */
export function resolveSemaphore(
  resource: string,
  options: AnySemaphoreOptions,
  defaults: { leaseMs: number; inWorkflow?: boolean },
): ResolvedSemaphore {
  checkResource(resource);
  const checked = checkOptions(options, SEMAPHORE);
  const { perKey } = checked;
  const slots = resolveSlots(resource, checked);
  const compactSlots = checked.capacity ?? [...slots];
  if (perKey !== undefined) checkPerKey(resource, perKey);
  const {
    taskQueue = DEFAULT_TASK_QUEUE,
    fair = false,
    reentrant = false,
    recheckAfter: recheckAfterMs = 30_000,
  } = checked;
  const times = resolveTimes(checked, options, defaults);
  const mark = slotsMark(compactSlots);
  const before = resolveBefore(options, (former) => resolveSemaphore(resource, former, defaults));
  return { resource, slots, compactSlots, mark, perKey, ...times, taskQueue, fair, reentrant, recheckAfterMs, before };
}

function resolveBefore(
  { before = [], ...present }: AnySemaphoreOptions,
  resolve: (former: AnySemaphoreOptions) => ResolvedSemaphore,
): readonly ResolvedSemaphore[] {
  if (!Array.isArray(before)) refuse('before', 'an array such as [{ capacity: 3 }]', before);
  const { capacity: _capacity, slots: _slots, ...withoutSlots } = present;
  return before.map((former: FormerOptions, at) => {
    const { capacity, slots, perKey } = checkOptions(former, FORMER, `before[${at}]`);
    if (perKey !== undefined && present.perKey === undefined) {
      refuseBeside(`before[${at}].perKey`, 'a semaphore without perKey', 'its callers no longer give a key');
    }
    const kept = capacity === undefined && slots === undefined ? present : withoutSlots;
    return saying(`before[${at}]: `, () => resolve({ ...kept, ...former } as AnySemaphoreOptions));
  });
}

/** Lease, renewals, pace and the longest hold, which bound each other. @param given as the user wrote them, for messages */
function resolveTimes(
  checked: { lease?: number; renewEvery?: number | false; maxHold?: number; pace?: Pace | false },
  given: Pick<SemaphoreOptions, 'lease' | 'renewEvery' | 'maxHold'>,
  defaults: { leaseMs: number; inWorkflow?: boolean },
): Pick<ResolvedSemaphore, 'leaseMs' | 'renewEveryMs' | 'maxHoldMs' | 'paceMs' | 'unpaced'> {
  const { lease: leaseMs = defaults.leaseMs, maxHold } = checked;
  const { renewEvery: renewEveryMs = Math.max(1, Math.floor(leaseMs / 3)) } = checked;
  if (renewEveryMs !== false && renewEveryMs >= leaseMs) {
    refuse('renewEvery', `less than the lease (${durationText(leaseMs)})`, given.renewEvery ?? renewEveryMs);
  }
  const longestMs = longestHoldMs(leaseMs, renewEveryMs, defaults.inWorkflow);
  if (longestMs < leaseMs) {
    if (given.renewEvery) {
      refuse(
        'renewEvery',
        `a value so long that the server takes all renewals of one lease (${durationText(leaseMs)})`,
        given.renewEvery,
      );
    }
    const most = `at most ${durationText(longestMs)}, the longest possible hold with these renewals`;
    refuse('lease', most, given.lease ?? durationText(leaseMs));
  }
  const paceMs = resolvePace(checked.pace, maxHold ?? longestMs);
  const maxHoldMs = maxHold ?? Math.min(longestMs, Math.max(DAY_MS, Math.max(leaseMs, paceMs ?? 0) + MINUTE_MS));
  if (maxHoldMs > longestMs) {
    refuse(
      'maxHold',
      `at most ${durationText(longestMs)}, the most that ${renewEveryMs === false ? 'one run allows' : `renewals every ${durationText(renewEveryMs)} allow`}`,
      given.maxHold,
    );
  }
  if (maxHoldMs < leaseMs) refuse('maxHold', `at least the lease (${durationText(leaseMs)})`, given.maxHold);
  return { leaseMs, renewEveryMs, maxHoldMs, paceMs, unpaced: checked.pace === false };
}

/**
 * How often the holder renews a permit that it has adopted: as the semaphore says, where that fits the permit's own lease.
 * @param noticeMs the last part of the lease, in which the holder has to stop
 */
export function adoptedRenewalMs(
  { renewEveryMs }: Pick<ResolvedSemaphore, 'renewEveryMs'>,
  { leaseMs }: { leaseMs: number },
  noticeMs = 0,
): number | false {
  if (renewEveryMs === false || renewEveryMs < leaseMs - noticeMs) return renewEveryMs;
  return Math.max(1, Math.floor(leaseMs / 3));
}

function resolvePace(pace: Pace | false | undefined, mostMs: number): number | undefined {
  if (pace === undefined || pace === false) return undefined;
  if (typeof pace !== 'object' || pace === null) refuse('pace', 'an object such as { every: "1s" }, or false', pace);
  const longestMs = mostMs - SPARE_MS;
  const { every: ms } = checkOptions(pace, { every: durationFrom(1) }, 'pace');
  if (ms !== undefined && ms <= longestMs) return ms;
  return refuse(
    'pace.every',
    `a duration of 1 ms to ${durationText(longestMs)}, a minute less than maxHold`,
    pace.every,
  );
}

const PREEMPTIBLE = { grace: durationFrom(1), atCheckpoints: boolean } satisfies Checks<PreemptibleOptions>;

const whenFull: Check<NonNullable<AcquireOptions['whenFull']>> = (value, what) =>
  value === 'refuse' || value === 'drop-oldest' ? value : refuse(what, '"refuse" or "drop-oldest"', value);

/** The checks of the options that every acquire takes. */
export const ACQUIRE_CHECKS = {
  timeout: durationFrom(0),
  maxWaiting: wholeFrom(1),
  whenFull,
  priority: checkPriority,
  purpose: textWithin(MAX_PURPOSE_LENGTH),
  outlivesRun: boolean,
} satisfies Checks<SetOptions>;

const ACQUIRE = {
  ...ACQUIRE_CHECKS,
  key: checkKey,
  preemptible: asIs<PreemptibleOptions>(),
  preempt: boolean,
} satisfies Checks<AcquireOptions>;

/**
 * Checks the options of one acquire against its semaphore, and fills in the defaults.
 * @param more the checks of options that only one side has
 * @throws InvalidOptionsError
 */
export function resolveAcquire(
  semaphore: Pick<ResolvedSemaphore, 'perKey' | 'leaseMs' | 'paceMs'>,
  options: AcquireOptions = {},
  more: Record<string, Check<unknown>> = {},
): ResolvedAcquire {
  const {
    timeout,
    preemptible: asked,
    preempt = false,
    ...rest
  } = checkOptions(options, { ...ACQUIRE, ...more }) as Checked<typeof ACQUIRE>;
  const { priority, purpose, key, outlivesRun = false } = rest;
  const bound = resolveBound(rest);
  const timeoutMs = timeout ?? Number.POSITIVE_INFINITY;
  const isKeyed = semaphore.perKey !== undefined || key !== undefined;
  if (preempt) {
    if (isKeyed) refuseBeside('preempt', 'key', KEY_IS_KEPT);
    if (timeoutMs === 0)
      refuseBeside('preempt', 'a timeout of 0 (tryAcquire)', 'no holder gives way to a caller that does not wait');
    priorityKeyFor('preempt', priority);
  }
  if (bound.whenFull && isKeyed) refuseBeside('whenFull: "drop-oldest"', 'key', DROPPED_HALFWAY);
  if (outlivesRun && isKeyed) refuseBeside('outlivesRun', 'key', "no caller could adopt the key's own permit");
  if (asked !== undefined && isKeyed) refuseBeside('preemptible', 'key', KEY_IS_KEPT);
  const preemptible = asked === undefined ? undefined : resolvePreemptible(asked, priority, semaphore);
  return { timeoutMs, ...bound, priority, purpose, key, preempt, preemptible, outlivesRun };
}

/** The options of an acquire that does not wait. @throws InvalidOptionsError for a timeout */
export function atOnce<O extends AcquireOptions>(options?: Omit<O, 'timeout'>): O {
  const { timeout } = (options ?? {}) as AcquireOptions;
  if (timeout !== undefined && timeout !== 0) refuseBeside('timeout', 'tryAcquire', 'it does not wait. Call acquire');
  return { ...options, timeout: 0 } as O;
}

/** Checks the options of one acquire of several permits, and fills in the defaults. @throws InvalidOptionsError */
export function resolveSetAcquire(
  options: SetOptions = {},
  more: Record<string, Check<unknown>> = {},
): ResolvedAcquire {
  const { key, preempt, preemptible } = options as AcquireOptions;
  if (key !== undefined) refuse('key', 'the key in its entry, { of: semaphore, key }', key);
  if (preempt !== undefined) refuseBeside('preempt', 'several permits', 'a set of permits does not pre-empt');
  if (preemptible !== undefined) refuseBeside('preemptible', 'several permits', 'a set of permits is not pre-empted');
  const checked = checkOptions(options, { ...ACQUIRE_CHECKS, ...more }) as Checked<typeof ACQUIRE_CHECKS>;
  const { timeout: timeoutMs = Number.POSITIVE_INFINITY, priority, purpose, outlivesRun = false } = checked;
  const alone = { key: undefined, preempt: false, preemptible: undefined };
  return { timeoutMs, ...resolveBound(checked), priority, purpose, outlivesRun, ...alone };
}

/** Why an acquire that waits in several queues can't be dropped from one of them. */
export const DROPPED_HALFWAY =
  'a later caller could drop it from one queue while it keeps its permit or its place of another';

function resolveBound({
  maxWaiting,
  whenFull,
}: Pick<Checked<typeof ACQUIRE>, 'maxWaiting' | 'whenFull'>): Pick<ResolvedAcquire, 'maxWaiting' | 'whenFull'> {
  if (whenFull !== undefined && maxWaiting === undefined) {
    throw new InvalidOptionsError(`whenFull ${show(whenFull)}: no queue is full without a bound. Give maxWaiting too.`);
  }
  return { maxWaiting, whenFull: whenFull === 'drop-oldest' ? whenFull : undefined };
}

const KEY_IS_KEPT = "the key's own permit can't be pre-empted";

function resolvePreemptible(
  preemptible: PreemptibleOptions,
  priority: Priority | undefined,
  { leaseMs, paceMs }: Pick<ResolvedSemaphore, 'leaseMs' | 'paceMs'>,
): ResolvedAcquire['preemptible'] {
  const priorityKey = priorityKeyFor('preemptible', priority);
  if (typeof preemptible !== 'object' || preemptible?.grace === undefined) {
    refuse('preemptible', 'an object such as { grace: "30s" }', preemptible);
  }
  const { grace: graceMs = 0, atCheckpoints = false } = checkOptions(preemptible, PREEMPTIBLE, 'preemptible');
  if (paceMs !== undefined)
    refuseBeside('preemptible', 'a pace', 'the pace keeps the slot taken even if the holder gives way');
  if (graceMs > leaseMs) refuse('preemptible.grace', `at most the lease (${durationText(leaseMs)})`, preemptible.grace);
  return { graceMs, priorityKey, atCheckpoints };
}

/** A priority that is inherited, or Temporal's default, would decide by accident whose work is thrown away. */
function priorityKeyFor(what: string, priority: Priority | undefined): number {
  if (priority?.priorityKey) return priority.priorityKey;
  throw new InvalidOptionsError(`${what} needs a priority.priorityKey: it compares the caller's with the holder's.`);
}

/** Checks the slots, and returns their names. @throws InvalidOptionsError */
export function resolveSlots(
  resource: string,
  { capacity, slots }: Pick<SemaphoreOptions, 'capacity' | 'slots'>,
): readonly string[] {
  if ((capacity === undefined) === (slots === undefined)) {
    refuse('options', 'exactly one of "capacity" and "slots"', { capacity, slots });
  }
  if (slots === undefined) return checkSlots(resource, slotNames(wholeFrom(1, MAX_SLOTS)(capacity, 'capacity')));
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

/** Refuses limits of keys that no resource of a key could have. */
export function checkPerKey(resource: string, perKey: PerKey): void {
  if (typeof perKey !== 'function') wholeFrom(1, MAX_SLOTS)(perKey, 'perKey');
  if (byteLength(resource) > MAX_KEYED_RESOURCE_BYTES) {
    refuse('resource', `at most ${MAX_KEYED_RESOURCE_BYTES} bytes of UTF-8, because it has keys`, resource);
  }
}

/** Refuses an empty key, or one that is not in NFC: two spellings would look the same. */
export function checkKey(value: unknown): string {
  const key = nonEmpty(value, 'key');
  if (/\p{Cs}/u.test(key) || key.normalize('NFC') !== key) refuse('key', "a text in Unicode's form NFC", key);
  return key;
}

/**
 * When an operator's setting is to end automatically, in epoch milliseconds.
 * @throws InvalidOptionsError for a time in the past, or more than 10 years ahead
 */
export function endMs(until: Date, nowMs: number): number {
  const untilMs = typeof until?.getTime === 'function' ? until.getTime() : Number.NaN;
  if (untilMs > nowMs && untilMs <= nowMs + MAX_DURATION_MS) return untilMs;
  return refuse('until', 'a Date in the future, at most 10 years ahead', until);
}

/** Checks a reference to a permit. @throws InvalidOptionsError */
export function resolveRef(ref: PermitRef): PermitRef {
  if (typeof ref !== 'object' || ref === null) refuse('ref', 'the result of permit.ref()', ref);
  const { resource, slot, workflowId, runId, leaseMs, paceMs, preemptible } = ref;
  checkResource(resource);
  checkSlot(resource, slot);
  const expected = permitId({ resource, slot });
  if (workflowId !== expected) refuse('ref.workflowId', `"${expected}"`, workflowId);
  if (!isRunId(runId)) refuse('ref.runId', 'a run ID, which is a UUID', runId);
  if (!isPositive(leaseMs)) refuse('ref.leaseMs', 'a number of milliseconds above 0', leaseMs);
  if (paceMs !== undefined && !isPositive(paceMs)) refuse('ref.paceMs', 'a number of milliseconds above 0', paceMs);
  const extra = { ...(paceMs !== undefined && { paceMs }), ...(preemptible === true && { preemptible }) };
  return { resource, slot, workflowId, runId, leaseMs, ...extra };
}

function isPositive(value: unknown): boolean {
  return typeof value === 'number' && value > 0 && value < Number.POSITIVE_INFINITY;
}
