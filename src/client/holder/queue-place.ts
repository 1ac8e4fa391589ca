import { randomUUID } from 'node:crypto';
import {
  TimeoutFailure,
  WorkflowExecutionAlreadyStartedError,
  WorkflowFailedError,
  type WorkflowHandle,
  WorkflowNotFoundError,
} from '@temporalio/client';
import type { LineMessage, Offer, Place } from '../../shared/acquirer';
import { fullOf, offerOf } from '../../shared/acquirer';
import { isOpen } from '../../shared/open';
import { queueId, waiterId } from '../../shared/permit-id';
import type { AwaitTurnInput } from '../../shared/protocol';
import { DECLINED, type DeclinedNotice, type Turn, WAITER_WORKFLOW } from '../../shared/protocol';
import { WORKFLOW_PRIORITY } from '../../shared/request';
import { readTurn } from '../../shared/wire-input';
import { monotonicMs, pause } from '../server/clock';
import { isTransient } from '../server/grpc-errors';
import { retryDelayMs, type Server } from '../server/server';
import type { ClientRequest } from './options';

/**
 * A waiter Workflow waits for `waitMs`; then the next one takes over, which costs a dozen events. This bounds how long the
 * waiter of a dead client stays in the queue. The next waiter starts `overlapMs` earlier, so that the ticket never leaves the queue.
 */
const SHIFT = { waitMs: 5 * 60_000, overlapMs: 10_000 };

/** How much longer than `waitMs` a waiter may run: the time to leave the queue. */
const WAITER_GRACE_MS = 60_000;

/** How long a cancelled waiter may take to end: it may have had its turn at that very moment. */
const CANCEL_MS = 1_000;

/** How long each call may take by which a place leaves the queue. If the call fails, the waiters end by themselves. */
const LEAVE_MS = 5_000;

type Handle = WorkflowHandle<(input: AwaitTurnInput) => Promise<Turn | null>>;

/** A waiter's result: a turn, `null` when its time was up, or the reason why there is none. */
type Result = Turn | null | 'failed' | 'timed-out';

interface Waiter {
  readonly handle: Handle;
  readonly result: Promise<Result>;
}

/**
 * A client's place in the wait queue of a resource; `WorkflowQueuePlace` is a Workflow's. Waiter Workflows keep the place, one
 * after the other, all with the same ticket. Each starts before the last one leaves.
 */
export class ClientQueuePlace implements Place {
  private readonly ticket: AwaitTurnInput['ticket'];
  private readonly left = new AbortController();
  /** Aborted when the acquirer needs no answer any more. */
  private readonly forgotten = new AbortController();
  /** The running waiters: one, or two while one takes over from the other. */
  private readonly waiters = new Set<Waiter>();
  private handOverAtMs = Number.POSITIVE_INFINITY;
  private failures = 0;
  private hearing: Promise<LineMessage> | undefined;
  private openOffer: Offer | undefined;
  private missedSlot: string | undefined;

  constructor(
    private readonly server: Server,
    private readonly request: ClientRequest,
    /** When the acquire times out, on the monotonic clock. */
    private readonly deadlineMs: number,
    private readonly shift = SHIFT,
  ) {
    this.ticket = { ...request.ticket, id: randomUUID() };
  }

  /** Only asks whether a queue runs, which may be empty by now; {@link next} joins it. */
  async join(): Promise<boolean> {
    const queue = this.server.client.workflow.getHandle(queueId(this.request.semaphore.resource));
    const isThere = async () => {
      try {
        return isOpen(await queue.describe());
      } catch (error) {
        if (error instanceof WorkflowNotFoundError) return false;
        throw error;
      }
    };
    return await this.server.persist(isThere, { untilMs: this.deadlineMs, signal: this.request.signal });
  }

  /** {@link next} does it. */
  async enter(): Promise<void> {}

  /** @throws the request's abort reason */
  async next(withinMs: number): Promise<LineMessage | undefined> {
    if (!this.hearing) {
      this.hearing = this.hear();
      this.hearing.catch(() => undefined); // it may fail between two calls: the next call throws the error
    }
    const waited = new AbortController();
    const over = AbortSignal.any([this.request.signal, waited.signal]);
    try {
      const word = await Promise.race([this.hearing, pause(withinMs, over)]);
      this.request.signal.throwIfAborted();
      if (word) this.hearing = undefined;
      return word ?? undefined;
    } finally {
      waited.abort();
    }
  }

  async missed(): Promise<void> {
    // While a waiter runs, the ticket is in the queue already.
    if (this.waiters.size === 0) this.missedSlot = this.openOffer?.slot;
    this.openOffer = undefined;
  }

  served(): void {
    this.openOffer = undefined;
  }

  /** It never fails: the caller may have won a permit. If the server can't be reached or refuses, the waiters end by themselves. */
  async leave(): Promise<void> {
    this.left.abort();
    const left = Promise.allSettled([
      this.pass(this.openOffer),
      ...[...this.waiters].map((waiter) => this.dismiss(waiter)),
    ]);
    await this.server.leaveBehind(left.finally(() => this.forgotten.abort()));
  }

  /** After {@link leave}: a Workflow that waits here has not heeded its cancellation yet, as when no worker runs it. */
  get isUnanswered(): boolean {
    return this.waiters.size > 0;
  }

  private async dismiss(waiter: Waiter): Promise<void> {
    await this.cancel(waiter.handle);
    const late = waiter.result.catch(() => undefined);
    const result = await Promise.race([late, pause(CANCEL_MS, this.forgotten.signal)]);
    if (result !== undefined) this.waiters.delete(waiter);
    if (typeof result === 'object') await this.pass(this.wordOf(result));
  }

  /** Passes on an offer that this acquirer does not use. */
  private async pass(offer: LineMessage | undefined): Promise<void> {
    if (typeof offer !== 'object') return;
    const { client } = this.server;
    const declined: DeclinedNotice = { ticketId: this.ticket.id, slot: offer.slot };
    await this.server.call(() => client.workflow.getHandle(offer.queueId).signal(DECLINED, declined), LEAVE_MS);
  }

  private async hear(): Promise<LineMessage> {
    for (;;) {
      if (this.waiters.size === 0 || monotonicMs() >= this.handOverAtMs) this.startWaiter();
      const ended = await this.firstToEnd();
      if (!ended) continue; // the next waiter is due
      this.waiters.delete(ended.waiter);
      const word = this.wordOf(ended.result);
      if (typeof word === 'object') this.openOffer = word;
      if (word) {
        this.failures = 0;
        return word;
      }
      // The waiter was terminated or has failed, and the next one may too.
      this.failures = ended.result === null ? 0 : this.failures + 1;
      if (this.failures > 0) await pause(retryDelayMs(this.failures), this.left.signal);
      this.left.signal.throwIfAborted();
    }
  }

  /** `undefined` when it is time for the next waiter. */
  private async firstToEnd(): Promise<{ waiter: Waiter; result: Result } | undefined> {
    const waited = new AbortController();
    try {
      return (
        (await Promise.race([
          ...[...this.waiters].map(async (waiter) => ({ waiter, result: await waiter.result })),
          pause(this.handOverAtMs - monotonicMs(), waited.signal),
        ])) ?? undefined
      );
    } finally {
      waited.abort();
    }
  }

  /** `undefined` for a result that calls for nothing. */
  private wordOf(result: Result): LineMessage | undefined {
    if (result === 'timed-out') return 'stuck'; // no worker runs our waiters
    const turn = readTurn(result);
    if (!turn) return undefined;
    if (turn.giveWay) return this.ticket.givesWay ? 'give-way' : undefined;
    if (turn.slot === undefined) return turn.full ? fullOf(turn) : 'stuck';
    const { resource, compactSlots } = this.request.semaphore;
    return turn.queueId === queueId(resource) ? offerOf(turn, compactSlots) : undefined;
  }

  private startWaiter(): void {
    const { resource } = this.request.semaphore;
    const handle: Handle = this.server.client.workflow.getHandle(waiterId(resource, randomUUID()));
    const leftMs = this.deadlineMs - monotonicMs();
    const { waitMs, overlapMs } = this.shift;
    this.handOverAtMs = leftMs > waitMs ? monotonicMs() + waitMs - overlapMs : Number.POSITIVE_INFINITY;
    const waiter: Waiter = { handle, result: this.runWaiter(handle, this.missedSlot) };
    this.missedSlot = undefined;
    this.waiters.add(waiter);
    waiter.result.catch(() => this.waiters.delete(waiter)); // `hear` throws the reason
  }

  private async runWaiter(handle: Handle, missed: string | undefined): Promise<Result> {
    const persistence = { untilMs: this.deadlineMs, signal: this.left.signal, finishes: true };
    await this.server.persist(() => this.start(handle.workflowId, missed), persistence);
    if (this.left.signal.aborted) await this.cancel(handle);
    return await this.resultOf(handle);
  }

  private async start(workflowId: string, missed: string | undefined): Promise<void> {
    const { resource, recheckAfterMs, taskQueue } = this.request.semaphore;
    const waitMs = Math.max(1, Math.ceil(Math.min(this.shift.waitMs, this.deadlineMs - monotonicMs())));
    const input: AwaitTurnInput = { resource, ticket: this.ticket, waitMs, recheckAfterMs, missed };
    try {
      await this.server.client.workflow.start(WAITER_WORKFLOW, {
        workflowId,
        args: [input],
        staticSummary: `waits for ${this.server.identity}`.slice(0, 90),
        taskQueue,
        priority: WORKFLOW_PRIORITY,
        workflowExecutionTimeout: waitMs + WAITER_GRACE_MS,
      });
    } catch (error) {
      // No other process knows the ID: an earlier attempt got through, and only its answer was lost.
      if (!(error instanceof WorkflowExecutionAlreadyStartedError)) throw error;
    }
  }

  private async resultOf(handle: Handle): Promise<Result> {
    return await this.server.poll<Result>(
      () => handle.result(),
      this.forgotten.signal,
      (error) => {
        if (error instanceof WorkflowFailedError) return error.cause instanceof TimeoutFailure ? 'timed-out' : 'failed';
        if (error instanceof WorkflowNotFoundError) return 'failed';
        if (!isTransient(error)) throw error;
        this.left.signal.throwIfAborted();
        return undefined;
      },
    );
  }

  private async cancel(handle: Handle): Promise<void> {
    try {
      await this.server.call(async () => await handle.cancel(), LEAVE_MS);
    } catch (error) {
      if (!(error instanceof WorkflowNotFoundError)) throw error; // it has ended, or never began
    }
  }
}
