import { randomUUID } from 'node:crypto';
import {
  isGrpcDeadlineError,
  TimeoutFailure,
  WorkflowExecutionAlreadyStartedError,
  WorkflowFailedError,
  type WorkflowHandle,
  WorkflowNotFoundError,
} from '@temporalio/client';
import type { Offer, Place as PlaceInLine, Word } from '../../shared/acquirer';
import { queueId, waiterId } from '../../shared/permit-id';
import { type AwaitTurnInput, DECLINED, type DeclinedNotice, type Turn, WAITER_WORKFLOW } from '../../shared/protocol';
import { WORKFLOW_PRIORITY } from '../../shared/start-options';
import { draftTicket, type TicketDraft } from '../../shared/ticket';
import { offersSlot, readTurn } from '../../shared/turn-input';
import { monotonicMs, pause } from '../clock';
import type { Request } from '../options';
import { isTransient, retryDelayMs, type Server } from '../server';

/**
 * How long one waiter Workflow waits before another takes its place. It bounds what a client that died while waiting
 * leaves behind; its cost is a dozen events for every such time. And how long before that the next one starts, so that the
 * ticket is in the queue all the time.
 */
const SHIFT = { waitMs: 5 * 60_000, overlapMs: 10_000 };

/** How much longer than it waits a waiter may run: to leave the line. */
const WAITER_GRACE_MS = 60_000;

/** How long a waiter that was cancelled may take to say whether it had its turn at that very moment. */
const FAREWELL_MS = 1_000;

/** One poll for a waiter's result; a dead connection is not waited on for longer. */
const POLL_MS = 70_000;

type Handle = WorkflowHandle<(input: AwaitTurnInput) => Promise<Turn | null>>;

/** What a waiter ended with: a turn, `null` when its time was up, or why it could not say. */
type Result = Turn | null | 'failed' | 'timed-out';

interface Waiter {
  readonly handle: Handle;
  readonly result: Promise<Result>;
}

/**
 * A client's place in the wait queue of a resource: what `WorkflowQueuePlace` is to a Workflow. Waiter Workflows keep it, one
 * after the other, all with the same ticket; each starts before the last one leaves.
 */
export class Place implements PlaceInLine {
  private readonly ticket: TicketDraft;
  private readonly left = new AbortController();
  /** Aborted when no answer is of interest any more. */
  private readonly forgotten = new AbortController();
  /** Those that run: one, or two at a hand-over. */
  private readonly waiters = new Set<Waiter>();
  private handOverAtMs = Number.POSITIVE_INFINITY;
  private failures = 0;
  private hearing: Promise<Word> | undefined;
  private openOffer: Offer | undefined;
  private missedSlot: string | undefined;

  constructor(
    private readonly server: Server,
    private readonly request: Request,
    /** When the acquire times out, on the monotonic clock. */
    private readonly deadlineMs: number,
    private readonly shift = SHIFT,
  ) {
    const { priority, semaphore, since } = request;
    const { identity } = server;
    this.ticket = draftTicket({
      id: randomUUID(),
      slots: semaphore.compactSlots,
      sinceMs: since.epochMs,
      priority,
      identity,
    });
  }

  /** Says only whether there is a queue; {@link next} lines up. It may have become empty a moment ago. */
  async join(): Promise<boolean> {
    const queue = this.server.client.workflow.getHandle(queueId(this.request.semaphore.resource));
    const isThere = async () => {
      try {
        return (await queue.describe()).status.name === 'RUNNING';
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
  async next(withinMs: number): Promise<Word | undefined> {
    if (!this.hearing) {
      this.hearing = this.hear();
      this.hearing.catch(() => undefined); // it may fail while nobody waits for it: the next call tells
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
    // A waiter that runs has lined up since.
    if (this.waiters.size === 0) this.missedSlot = this.openOffer?.slot;
    this.openOffer = undefined;
  }

  served(): void {
    this.openOffer = undefined;
  }

  /** If the server can't be reached, the waiters end by themselves. */
  async leave(): Promise<void> {
    this.left.abort();
    try {
      await Promise.all([this.pass(this.openOffer), ...[...this.waiters].map((waiter) => this.dismiss(waiter))]);
    } catch (error) {
      if (!isTransient(error) && !(error instanceof WorkflowNotFoundError)) throw error;
    } finally {
      this.forgotten.abort();
    }
  }

  private async dismiss(waiter: Waiter): Promise<void> {
    await this.cancel(waiter.handle);
    const late = waiter.result.catch(() => undefined);
    const result = await Promise.race([late, pause(FAREWELL_MS, this.forgotten.signal)]);
    if (typeof result === 'object') await this.pass(this.wordOf(result));
  }

  /** An offer that nobody here uses goes to the next. */
  private async pass(offer: Word | undefined): Promise<void> {
    if (typeof offer !== 'object') return;
    const declined: DeclinedNotice = { ticketId: this.ticket.id, slot: offer.slot };
    await this.server.call(() => this.server.client.workflow.getHandle(offer.queueId).signal(DECLINED, declined));
  }

  private async hear(): Promise<Word> {
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
      this.left.signal.throwIfAborted();
      // Otherwise it was terminated or failed, and soon might again.
      this.failures = ended.result === null ? 0 : this.failures + 1;
      if (this.failures > 0) await pause(retryDelayMs(this.failures), this.left.signal);
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

  /** `undefined`: nothing that one could act on. */
  private wordOf(result: Result): Word | undefined {
    if (result === 'timed-out') return 'stuck'; // nobody runs our waiters
    const turn = readTurn(result);
    if (!turn) return undefined;
    const { slot, queueId: from, capacity } = turn;
    if (slot === undefined) return 'stuck';
    const { resource, compactSlots } = this.request.semaphore;
    return from === queueId(resource) && offersSlot(turn, compactSlots) ? { slot, queueId: from, capacity } : undefined;
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
    waiter.result.catch(() => this.waiters.delete(waiter)); // `hear` tells why
  }

  private async runWaiter(handle: Handle, missed: string | undefined): Promise<Result> {
    const persistence = { untilMs: this.deadlineMs, signal: this.left.signal };
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
      // Nobody else knows its ID: an earlier attempt got through, and its answer did not.
      if (!(error instanceof WorkflowExecutionAlreadyStartedError)) throw error;
    }
  }

  private async resultOf(handle: Handle): Promise<Result> {
    for (let failures = 0; ; ) {
      try {
        return await this.server.call(() => handle.result(), POLL_MS, this.forgotten.signal);
      } catch (error) {
        if (error instanceof WorkflowFailedError) return error.cause instanceof TimeoutFailure ? 'timed-out' : 'failed';
        if (error instanceof WorkflowNotFoundError) return 'failed';
        if (!isTransient(error)) throw error;
        if (!isGrpcDeadlineError(error)) await pause(retryDelayMs(failures++), this.left.signal);
        this.left.signal.throwIfAborted();
      }
    }
  }

  private async cancel(handle: Handle): Promise<void> {
    try {
      await this.server.call(async () => await handle.cancel());
    } catch (error) {
      if (!(error instanceof WorkflowNotFoundError)) throw error; // it has ended, or not begun: fine
    }
  }
}
