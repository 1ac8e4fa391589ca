import type { Client } from '@temporalio/client';
import type { Duration } from '@temporalio/common';
import { MAX_TIMER_MS, monotonicMs } from '../client/server/clock';
import { endingWith } from '../client/server/ending-calls';
import { NoAnswerError } from '../client/server/errors';
import { isFailedPrecondition } from '../client/server/grpc-errors';
import { mapConcurrently } from '../client/server/map-concurrently';
import { PermitRun } from '../client/server/permit-run';
import { noAnswer, Pollers } from '../client/server/pollers';
import { checkClient, type Persistence, Server } from '../client/server/server';
import {
  asIs,
  boolean,
  type Checks,
  checkOptions,
  durationFrom,
  InvalidOptionsError,
  nonEmpty,
  refuse,
  textWithin,
  wholeFrom,
} from '../shared/check';
import { checkNotDerived, isKeyResource, keyResource } from '../shared/key-names';
import { checkKey, checkPerKey, endMs, resolveSlots } from '../shared/options';
import { checkResource, checkSlot, queueId } from '../shared/permit-id';
import { DEFAULT_TASK_QUEUE, MAX_REASON_LENGTH, type OverrideInput, REVOKE } from '../shared/protocol';
import { MAX_SLOTS, type Slots, slotNames } from '../shared/slots';
import { isCount } from '../shared/untyped';
import { DeployedSlots } from './deployed-slots';
import { ForeignWorkflowError, NotHeldError } from './errors';
import type { Inspection, Override, PermitInspection, ResourceSlot, SlotInspection, Stranger } from './inspection';
import { ANSWERS_WITHIN_MS, Inspector, isSet, shown } from './inspector';
import { isLate, overrideQueue } from './override';
import { isLineKnown } from './reader';
import { type KnownOutcomes, listPastHolds } from './visibility';
import { WorkerQueries } from './worker-queries';

/** What an operator knows of a resource. Without `capacity` and `slots`, the resource's queue is asked, and its permits. */
export interface OperatorOptions {
  /** How many permits the resource is deployed with. @default as its queue or its permits report */
  capacity?: number | undefined;
  /** The names of its slots, instead of a capacity. */
  slots?: readonly string[] | undefined;
  /** Acts on the permits of this key, which are a separate resource. The permits of the resource itself stay as they are. */
  key?: string | undefined;
  /** Instead of a capacity, with a `key`: how many permits callers declare for it. @default as the key's queue or its permits report */
  perKey?: number | undefined;
  /**
   * The task queue of the permits, on which a command starts the resource's queue if no queue runs.
   * @default the task queue of a queue or a permit of the resource that runs now; if none runs, "permits"
   */
  taskQueue?: string | undefined;
}

/** The options of {@link Operator.inspect}. */
export interface InspectOptions {
  /** How many past holds to list, 0 to 100. They cost a call to visibility, of which a server allows few; `0` spares it. @default 20 */
  recent?: number | undefined;
  /**
   * Asks visibility for the held slots, at most every 10 seconds, unless the operator was given the slots: their number may be unknown,
   * or a caller may hold a slot that the queue does not know. `false` spares the call. @default true
   */
  search?: boolean | undefined;
  /** @internal For several looks: a task queue that no worker polls then costs its time only once. */
  queries?: WorkerQueries | undefined;
  /** @internal For how long an answer serves later looks, unless it must have changed by then: for a caller that looks each second. */
  servesMs?: number | undefined;
  /** @internal Asked before each query of a permit; `false` spares it. */
  mayAskPermit?: (() => boolean) | undefined;
}

/** What an operator command changes. */
type OverrideChange = Pick<OverrideInput, 'capacity' | 'capacityUntilMs' | 'paused' | 'fileVersion'>;

/** An operator command under way. */
interface Order {
  readonly timeoutMs: number;
  /** The task queue whose workers carry it out, once known. */
  taskQueue?: string;
}

interface OrderOptions {
  /** How long the command may take: server and workers must have carried it out within this time. @default 10 seconds */
  timeout?: Duration | undefined;
}

/** The options of {@link Operator.revoke}. */
export interface RevokeOptions extends OrderOptions {
  /** Revoke only this run, as the operator has seen it: another run may hold the slot by now. @default whichever run holds the slot */
  runId?: string | undefined;
  /** Shown to the holder; at most 1,000 characters. */
  reason?: string | undefined;
}

/** The options of each command that changes the override. */
export interface OverrideOptions extends OrderOptions {
  /** Act only if the override has this version now; `0`: only if there is no override. @default act in any case */
  ifVersion?: number | undefined;
  /** Shown to operators; at most 1,000 characters. */
  reason?: string | undefined;
}

/** The options of {@link Operator.resize}. */
export interface ResizeOptions extends OverrideOptions {
  /**
   * When the change ends by itself: in the future by this machine's clock, and at most 10 years ahead. The former capacity applies again
   * then.
   * @default never: until the next change
   */
  until?: Date | undefined;
}

/** The options of {@link Operator.pause}. */
export interface PauseOptions extends OverrideOptions {
  /**
   * When the pause ends by itself: in the future by this machine's clock, and at most 10 years ahead. A pause that ends later, or
   * without an end, then stays as it is.
   * @default never: until `resume`
   */
  until?: Date | undefined;
}

const OPERATOR = {
  capacity: asIs<number>(),
  slots: asIs<readonly string[]>(),
  key: checkKey,
  perKey: wholeFrom(1, MAX_SLOTS),
  taskQueue: nonEmpty,
} satisfies Checks<OperatorOptions>;

const INSPECT = {
  recent: wholeFrom(0, 100),
  search: boolean,
  queries: asIs<WorkerQueries>(),
  servesMs: asIs<number>(),
  mayAskPermit: asIs<InspectOptions['mayAskPermit'] & object>(),
} satisfies Checks<InspectOptions>;

const ORDER = { reason: textWithin(MAX_REASON_LENGTH), timeout: durationFrom(1) };
const REVOCATION = { ...ORDER, runId: asIs<string>() } satisfies Checks<RevokeOptions>;
const CHANGE = { ...ORDER, ifVersion: wholeFrom(0) } satisfies Checks<OverrideOptions>;
const CHANGE_WITH_END = { ...CHANGE, until: asIs<Date>() } satisfies Checks<PauseOptions & ResizeOptions>;

const ANSWER_WITHIN_MS = 10_000;

/**
 * Inspects and controls one resource: who holds, who waits, and how many slots are in use. It holds nothing and waits for no permit.
 *
 * An operator may know only the name of the resource. While a queue runs, it reports how many slots there are; otherwise the permits that
 * run do, and after them the last answer counts. Until then, or if the slots have names, {@link inspect} shows the slots that were seen
 * held, and leaves out `capacity`.
 *
 * @example
 * ```ts
 * const gpus = new Operator(client, 'gpu-pool');
 * const { held, waiting, slots } = await gpus.inspect();
 *
 * await gpus.pause({ reason: 'node drain' });
 * for (const { slot, permit } of slots) if (permit) await gpus.revoke(slot, { runId: permit.runId, reason: 'node drain' });
 *
 * const acme = new Operator(client, 'openai', { key: 'acme' });
 * await acme.resize(5, { reason: 'a bigger plan' });
 * ```
 */
export class Operator {
  /** With a `key`, the resource of that key: `openai~key:acme`. */
  readonly resource: string;
  private readonly server: Server;
  private readonly inspector: Inspector;
  private readonly deployed: DeployedSlots;
  private readonly knownOutcomes: KnownOutcomes = new Map();

  /**
   * @param client a client of the namespace that shares the resource
   * @param resource the name of the shared thing; printable, at most 204 bytes of UTF-8
   * @throws InvalidOptionsError that names the expected and the given value
   */
  constructor(
    client: Client,
    resource: string,
    private readonly options: OperatorOptions = {},
  ) {
    checkClient(client);
    checkOperator(resource, options);
    const { capacity, slots, key, perKey } = options;
    this.resource = key === undefined ? resource : keyResource(resource, key);
    this.server = new Server(client);
    this.inspector = new Inspector(this.server, this.resource);
    const given = capacity ?? perKey ?? (slots && [...slots]);
    this.deployed = new DeployedSlots(this.server, this.resource, this.inspector, given);
  }

  /**
   * Shows the holders, the waiters in order, and what operators have set. It asks the server about each slot, and workers for the
   * rest. Of those that have waited for 30 s, it asks the server whether they still run. Each slot is exact, but the whole is no snapshot:
   * a permit can change hands between two answers. If no worker answers within two seconds, the result says so and leaves out what only
   * workers know. It writes nothing anywhere.
   *
   * @throws ServiceError when the server can't be reached, or refuses
   * @throws InvalidOptionsError that names the expected and the given value
   *
   * @example
   * ```ts
   * import { Operator } from 'temporal-semaphore/operator';
   *
   * const { slots, waiters } = await new Operator(client, 'gpu-pool', { capacity: 3 }).inspect({ recent: 0 });
   * for (const { slot, state, permit } of slots) console.log(slot, state, permit?.holder.workflowId, permit?.leaseDeadline);
   * for (const { place, workflowId, since } of waiters) console.log(place, workflowId, since);
   * ```
   */
  async inspect(options: InspectOptions = {}): Promise<Inspection> {
    const { recent = 20, search = true, queries, servesMs = 0, mayAskPermit } = checkOptions(options, INSPECT);
    const [{ known, look }, past] = await Promise.all([
      this.deployed.look(search, { queries, servesMs, mayAskPermit }),
      listPastHolds(this.server, this.resource, recent, this.knownOutcomes),
    ]);
    const { resource, capacity, slots, ...seen } = look;
    const count = (state: SlotInspection['state']) => slots.filter((slot) => slot.state === state).length;
    return {
      resource,
      ...(known !== undefined && { capacity }),
      held: count('held'),
      ...(known !== undefined && { free: count('free') }),
      ...(isLineKnown(seen) && { waiting: seen.waiters.length }),
      slots,
      ...seen,
      recent: past,
    };
  }

  /**
   * Takes a permit away, and resolves with it when the slot is free. The next waiter may hold the slot a moment later. The
   * holder is notified at once, with the reason: `withPermit` cancels its function, or aborts its `signal`, and throws
   * `PermitLostError`. Until then, the holder may still write: the fencing token guards against that.
   *
   * @throws NotHeldError when no caller holds the slot, or another run than `runId` does
   * @throws ForeignWorkflowError when a Workflow of another type has the permit's ID
   * @throws NoAnswerError when no worker has ended the permit within `timeout`; it may end later. At once, with `paused`, when the permit
   * is paused on the server: it ends when it is unpaused
   * @throws ServiceError when the server can't be reached, or refuses
   * @throws InvalidOptionsError that names the expected and the given value
   */
  async revoke(slot: string, options: RevokeOptions = {}): Promise<PermitInspection> {
    const { resource } = this;
    checkSlot(resource, slot);
    const { runId, reason, timeout: timeoutMs = ANSWER_WITHIN_MS } = checkOptions(options, REVOCATION);
    const order: Order = { timeoutMs };
    return await this.carryOut(order, async (persistence) => {
      const permit = await this.server.persist(() => this.inspector.permit(slot), persistence);
      if (!permit || (runId !== undefined && permit.runId !== runId)) {
        throw new NotHeldError({ resource, slot }, runId);
      }
      order.taskQueue = permit.taskQueue;
      const run = new PermitRun(this.server, permit);
      const delivered = await this.server.persist(() => run.send(REVOKE, undefined, { reason }), persistence);
      if (!delivered) throw new NotHeldError({ resource, slot }, runId);
      if (permit.paused) throw new NoAnswerError(resource, timeoutMs, { paused: permit.workflowId });
      await run.end(persistence.signal);
      return permit;
    });
  }

  /**
   * Changes how many slots are in use, at run time and for all callers, until the next change. The wait queue keeps the number.
   * With fewer slots, held ones stay held, and go out of use as they come free. Free slots are out of use when this resolves, or
   * after 5 s at the latest (20 slots take about a second). With more, the queue offers further slots (`"3"`, `"4"`) to the
   * waiters; named slots can't grow. The capacity that the resource is deployed with ends the override. With `until`, the queue ends
   * the change by itself, even if this process has ended long ago.
   *
   * @param capacity from 1 to 1,000; to use no slots at all, {@link pause}
   * @returns what is set now; `version` grows with every change
   * @throws StaleOverrideError when the override has another version than `ifVersion`; nothing has changed
   * @throws ForeignWorkflowError when a Workflow of another type has the queue's ID; nothing has changed
   * @throws NoAnswerError when no worker has answered within `timeout`; the change may still take effect. At once, with `paused`, when
   * the queue is paused on the server; nothing has changed then
   * @throws InvalidOptionsError also if neither a queue nor a permit reports how many slots the resource has
   * @throws ServiceError when the server can't be reached, or refuses
   */
  async resize(capacity: number, options: ResizeOptions = {}): Promise<Override> {
    const { until, ...rest } = checkOptions(options, CHANGE_WITH_END);
    const end = until !== undefined && { capacityUntilMs: endMs(until, Date.now()) };
    return await this.set({ capacity, ...end }, rest);
  }

  /** @internal Changes how many slots are in use, and pauses or resumes, in one command: what is absent stays. Throws as {@link resize} does. */
  async set(change: OverrideChange, options: OverrideOptions = {}): Promise<Override> {
    const { capacity } = change;
    return await this.override(options, (slots) => {
      const most = typeof slots === 'number' ? MAX_SLOTS : slots.length;
      const why = capacity === 0 ? ' (to give none, use pause)' : most < MAX_SLOTS ? " (named slots can't grow)" : '';
      const expected = `a whole number from 1 to ${most}${why}`;
      if ('capacity' in change && !isCount(capacity, most)) refuse('capacity', expected, capacity);
      return change;
    });
  }

  /**
   * Takes all slots out of use as they come free, the free ones before this resolves, until {@link resume} or the time `until`.
   * Waiters keep waiting. The wait queue keeps the pause and ends it, even if this process has ended long ago. Throws as
   * {@link resize} does.
   *
   * @returns what is set now
   *
   * @example For a 429 that says when to come back:
   * ```ts
   * const vendor = new Operator(client, 'vendor-api');
   * await vendor.pause({ until: new Date(Date.now() + retryAfterSeconds * 1_000), reason: '429' });
   * ```
   */
  async pause(options: PauseOptions = {}): Promise<Override> {
    const { until, ...rest } = checkOptions(options, CHANGE_WITH_END);
    const change = until === undefined ? { paused: true } : { pauseUntilMs: endMs(until, Date.now()) };
    return await this.override(rest, () => change);
  }

  /**
   * Ends a pause. A capacity that {@link resize} has set stays. Throws as {@link resize} does.
   *
   * @returns the override that is left, if any
   */
  async resume(options: Omit<OverrideOptions, 'reason'> = {}): Promise<Override | undefined> {
    const override = await this.set({ paused: false }, options);
    return isSet(override) ? override : undefined;
  }

  /** @internal Adds a slot that the caller has found held: the next look asks for it. */
  addSlot(slot: string): void {
    this.deployed.addSlot(slot);
  }

  /** @internal Adds permits that the caller has found: the next look asks for their slots, and for as many as they state. */
  addHeld(held: readonly ResourceSlot[]): void {
    this.deployed.addHeld(held);
  }

  /**
   * @internal The slots that the resource is deployed with; `undefined` if they are unknown. The resource may have been deployed
   * again with other slots, so this asks its queue each time, and then also finds what is set.
   * @throws ForeignWorkflowError
   */
  async findSlots(search = false): Promise<{ slots: Slots | undefined; override?: Override }> {
    const { slots, queue } = await this.deployed.find(search);
    refuseStranger(queue);
    const override = queue?.view?.override;
    return { slots, ...(override && { override: shown(override) }) };
  }

  /** @internal The permits of those of these slots that a caller holds. Each slot costs a `describe`, which is no Action. */
  async heldIn(slots: readonly string[]): Promise<SlotInspection[]> {
    const asking = {
      queries: new WorkerQueries(this.server, ANSWERS_WITHIN_MS),
      servesMs: 0,
      mayAskPermit: () => false,
    };
    const seen = await mapConcurrently(slots, (slot) => this.inspector.slot(slot, asking));
    return seen.filter(({ state }) => state === 'held');
  }

  private async override(
    options: OverrideOptions,
    changeOf: (slots: Slots) => OverrideChange & Pick<OverrideInput, 'pauseUntilMs'>,
  ): Promise<Override> {
    const { resource } = this;
    const { ifVersion, reason, timeout: timeoutMs = ANSWER_WITHIN_MS } = checkOptions(options, CHANGE);
    const order: Order = { timeoutMs, taskQueue: this.options.taskQueue };
    return await this.carryOut(order, async (persistence) => {
      const find = () => this.deployed.find(!this.deployed.areRemembered);
      const { slots, queue: seen } = await this.server.persist(find, persistence);
      const queue = seen ?? (await this.server.persist(() => this.inspector.queueRun(), persistence));
      refuseStranger(queue);
      if (slots === undefined) {
        await this.refuseIfPaused(timeoutMs);
        throw new InvalidOptionsError(
          `Neither a queue nor a permit of "${resource}" says how many slots it has: give ${isKeyResource(resource) ? 'perKey' : 'capacity or slots'}.`,
        );
      }
      const input = { slots, ...changeOf(slots), reason, ifVersion };
      const ofPermits = () => this.inspector.permitTaskQueue(slotNames(slots));
      const taskQueue =
        order.taskQueue ??
        queue?.taskQueue ??
        (await this.server.persist(ofPermits, persistence)) ??
        DEFAULT_TASK_QUEUE;
      order.taskQueue = taskQueue;
      try {
        return await overrideQueue(this.server, { resource, taskQueue }, input, persistence);
      } catch (error) {
        if (isFailedPrecondition(error)) await this.refuseIfPaused(timeoutMs);
        throw error;
      }
    });
  }

  /** @internal @throws NoAnswerError when the queue is paused on the server */
  async refuseIfPaused(timeoutMs = ANSWER_WITHIN_MS): Promise<void> {
    if (!(await this.inspector.queueRun())?.isPaused) return;
    throw new NoAnswerError(this.resource, timeoutMs, { paused: queueId(this.resource) });
  }

  /** @throws NoAnswerError when its time is up; no call of the command goes on then */
  private async carryOut<T>(order: Order, work: (persistence: Persistence) => Promise<T>): Promise<T> {
    const { timeoutMs } = order;
    const limit = new AbortController();
    const timer = setTimeout(() => limit.abort(), Math.min(timeoutMs, MAX_TIMER_MS));
    const persistence = { untilMs: monotonicMs() + timeoutMs, signal: limit.signal };
    try {
      return await endingWith(limit.signal, () => work(persistence));
    } catch (error) {
      const isTold = [NotHeldError, ForeignWorkflowError, NoAnswerError].some((told) => error instanceof told);
      if (isTold || !(limit.signal.aborted || isLate(error))) throw error;
      const { taskQueue = DEFAULT_TASK_QUEUE } = order;
      const why = error === limit.signal.reason ? {} : { cause: error };
      throw await noAnswer(new Pollers(this.server, taskQueue), this.resource, timeoutMs, why);
    } finally {
      clearTimeout(timer);
    }
  }
}

/** @throws ForeignWorkflowError when a Workflow of another type has the queue's ID */
function refuseStranger({ stranger }: { stranger?: Stranger } = {}): void {
  if (stranger) throw new ForeignWorkflowError(stranger);
}

/** Checks what an operator is given, before any call to the server. @throws InvalidOptionsError */
function checkOperator(resource: string, options: OperatorOptions): void {
  checkResource(resource);
  const { capacity, slots, key, perKey } = checkOptions(options, OPERATOR);
  const isSized = capacity !== undefined || slots !== undefined;
  if (key === undefined) {
    if (perKey !== undefined) refuse('perKey', 'none without a key', perKey);
    if (isSized) resolveSlots(resource, { capacity, slots });
    return;
  }
  checkNotDerived(resource);
  if (isSized) refuse('key', 'perKey instead of capacity and slots, which belong to the resource', { capacity, slots });
  checkPerKey(resource, perKey ?? 1);
}
