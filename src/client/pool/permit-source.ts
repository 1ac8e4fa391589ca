import { randomUUID } from 'node:crypto';
import { type Client, WorkflowNotFoundError } from '@temporalio/client';
import { isOpen, isPaused } from '../../shared/open';
import { type ResolvedAcquire, type ResolvedSemaphore, resolveSetAcquire } from '../../shared/options';
import { queueId } from '../../shared/permit-id';
import { QUEUE_VIEW, type QueueView } from '../../shared/protocol';
import { readQueueView, withoutTurn } from '../../shared/queue-view';
import { shuffle } from '../../shared/shuffle';
import { hasMore, isSlotInUse, slotsMark } from '../../shared/slots';
import { clientAcquirer, warnOfDisagreement } from '../holder/acquire';
import { ANSWER_MS, claimSlot } from '../holder/claim';
import type { ClientMetrics } from '../holder/metrics';
import { type ClientRequest, clientRequestOf } from '../holder/options';
import { Permit } from '../holder/permit';
import { monotonicMs } from '../server/clock';
import type { Circumstances } from '../server/errors';
import { isSilence } from '../server/grpc-errors';
import { Pollers } from '../server/pollers';
import { QUERY_MS, Server } from '../server/server';
import type { Others } from './fair-share';
import type { Place } from './pool-sizing';

/** How many more slots than it needs a pool tries before it joins the queue. Each try is one call. */
const SPARE_TRIES = 2;

/** How long a try may wait for the server to answer. */
const TRY_MS = 10_000;

/** Of the caller for whom a pool asks: operators see the purpose, and the queue heeds the priority. */
type Asking = Pick<ResolvedAcquire, 'purpose' | 'priority'>;

interface Try {
  count: number;
  everySlot: boolean;
  /** Slots that the pool holds already. */
  without: ReadonlySet<string>;
}

/** Where a permit pool gets its permits: makes the calls to the server, and does not decide when. */
export class PermitSource {
  /** Distinguishes this pool's tickets from those of other pools. */
  readonly poolId = randomUUID();
  /** Makes the calls of this pool, and of no other. */
  private readonly server: Server;
  /** The queue's last answer, and the state of its history then. */
  private seen: { state: string; others: Others } | undefined;
  private readonly pollers: Pollers;

  constructor(
    client: Client,
    readonly semaphore: ResolvedSemaphore,
    readonly metrics: ClientMetrics,
  ) {
    this.server = new Server(client);
    this.pollers = new Pollers(this.server, semaphore.taskQueue);
  }

  /** Tries slots concurrently, and hands on each permit as it comes. In strict order, it tries slots only if no other acquirer waits. */
  async try(
    { count, everySlot, without }: Try,
    asking: Asking,
    signal: AbortSignal,
    take: (permit: Permit) => void,
  ): Promise<void> {
    const { slots, fair } = this.semaphore;
    if (fair && (await this.mayOthersWait(!everySlot))) return;
    const free = shuffle(slots, Math.random).filter((slot) => !without.has(slot));
    const tried = everySlot ? free : free.slice(0, count + SPARE_TRIES);
    const request = this.request(asking, 1, signal);
    const endMs = monotonicMs() + TRY_MS;
    const tryOn = async () => {
      for (let slot = tried.shift(); slot !== undefined && !signal.aborted; slot = tried.shift()) {
        const untilMs = everySlot ? Math.min(endMs, monotonicMs() + ANSWER_MS) : endMs;
        const claim = { slot, request, untilMs };
        const grant = await this.metrics.acquire(this.semaphore.resource, signal, () => claimSlot(this.server, claim));
        if (grant) return take(new Permit(grant));
      }
    };
    const ends = await Promise.allSettled(Array.from({ length: count }, tryOn));
    for (const end of ends) if (end.status === 'rejected') throw end.reason;
  }

  /** Joins the queue, and waits for its turn. */
  async lineUp({ nth }: Place, asking: Asking, signal: AbortSignal): Promise<Permit | undefined> {
    const request = this.request(asking, nth, signal);
    const never = { deadlineMs: Number.POSITIVE_INFINITY, firstTries: 0, triesBeforeJoin: 0 };
    const acquirer = clientAcquirer(this.server, request, { ...never, metrics: this.metrics });
    const grant = await this.metrics.acquire(this.semaphore.resource, signal, () => acquirer.acquire());
    return grant && new Permit(grant);
  }

  /**
   * Looks who else waits for permits of the resource. That a queue runs says little, since an empty queue stays for a while: so this queries
   * the queue. A query is an Action on Temporal Cloud, so a queue that has not changed since the last query is not asked again. `undefined`
   * if no worker answers at once: a permit then serves on.
   */
  async look(): Promise<Others | undefined> {
    const { resource } = this.semaphore;
    const handle = this.server.client.workflow.getHandle(queueId(resource));
    try {
      const { runId, status, historyLength } = await this.server.call(() => handle.describe(), QUERY_MS);
      if (!isOpen({ status })) return this.noWaiters;
      if (isPaused({ status })) return PERHAPS;
      const state = `${runId} ${historyLength}`;
      if (this.seen?.state === state) return this.seen.others;
      const view = readQueueView(resource, await this.server.call(() => handle.query(QUEUE_VIEW), QUERY_MS));
      const others = view && this.othersIn(view);
      this.seen = others && { state, others };
      return others;
    } catch (error) {
      if (error instanceof WorkflowNotFoundError) return this.noWaiters;
      return isSilence(error) ? undefined : PERHAPS;
    }
  }

  /** @param ifUnknown the answer if no worker says who waits */
  private async mayOthersWait(ifUnknown: boolean): Promise<boolean> {
    const others = await this.look();
    return others ? others.tickets.length > 0 : ifUnknown;
  }

  private get noWaiters(): Others {
    return { tickets: [], isInUse: (slot) => this.semaphore.slots.includes(slot) };
  }

  private othersIn(view: QueueView): Others {
    const { override } = view;
    const waiting = withoutTurn(view).filter(({ pool }) => pool?.id !== this.poolId);
    const lists = [...new Set(waiting.map((ticket) => ticket.slots))];
    const fewer = lists.find((list) => hasMore(this.semaphore.compactSlots, list));
    if (fewer !== undefined && override?.capacity === undefined) warnOfDisagreement(this.semaphore, slotsMark(fewer));
    // A slot that an operator had added is out of use when the override is gone.
    if (!override) return { ...this.noWaiters, tickets: waiting };
    return { tickets: waiting, isInUse: (slot) => isSlotInUse(slot, override), capacity: override.capacity };
  }

  /** Why a caller may have got no permit. */
  async circumstances(): Promise<Circumstances> {
    return await this.pollers.circumstances();
  }

  /** Emits a Node warning if no worker is there to serve the waiting callers. */
  async warn(served: AbortSignal): Promise<void> {
    await this.pollers.warn(served);
  }

  /** Resolves when nothing is under way, such as a slot that is given back. */
  async ended(): Promise<void> {
    await this.server.ended();
  }

  private request(asking: Asking, nth: number, signal: AbortSignal): ClientRequest {
    const caller = { sinceMs: Date.now(), ...this.server.caller, pool: { id: this.poolId, nth } };
    return clientRequestOf(this.semaphore, { ...WITHOUT_TIMEOUT, ...asking, signal }, caller, monotonicMs());
  }
}

/** A permit pool waits without a timeout: its callers have their own. */
const WITHOUT_TIMEOUT = resolveSetAcquire();

/** The answer if the pool can't find out whether others wait, as while the queue is paused. Others must not wait indefinitely. */
const PERHAPS: Others = { tickets: [{ id: '', priorityKey: 1 }], isInUse: () => true };
