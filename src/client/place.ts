import { randomUUID } from 'node:crypto';
import {
  isGrpcDeadlineError,
  WorkflowExecutionAlreadyStartedError,
  WorkflowFailedError,
  type WorkflowHandle,
  WorkflowNotFoundError,
} from '@temporalio/client';
import { queueId, waiterId } from '../shared/permit-id';
import { type AwaitTurnInput, DECLINED, type DeclinedNotice, type Turn, WAITER_WORKFLOW } from '../shared/protocol';
import { monotonicMs, pause } from './clock';
import type { Request } from './options';
import { isTransient, retryDelayMs, type Server } from './server';

type Waiter = WorkflowHandle<(input: AwaitTurnInput) => Promise<Turn | null>>;

/**
 * How long one waiter Workflow waits before another takes its place. It bounds what a client that died while waiting
 * leaves behind; its cost is a dozen events for every such time.
 */
const WAITER_MS = 5 * 60_000;

/** How much longer than it waits a waiter may run: to leave the line. */
const WAITER_GRACE_MS = 60_000;

/** How long a waiter that was cancelled may take to say whether it had its turn at that very moment. */
const FAREWELL_MS = 1_000;

/** One poll for a waiter's result; a dead connection is not waited on for longer. */
const POLL_MS = 70_000;

/**
 * A client's place in the wait queue of a resource: what `WaitingPlace` is to a Workflow. Waiter Workflows keep it, one
 * after the other, all with the same ticket.
 */
export class Place {
  private readonly ticket: AwaitTurnInput['ticket'];
  private readonly left = new AbortController();
  /** Aborted when no answer is of interest any more. */
  private readonly forgotten = new AbortController();
  private waiting: Promise<Turn> | undefined;
  private waiter: Waiter | undefined;
  private missedSlot: string | undefined;

  constructor(
    private readonly server: Server,
    private readonly request: Request,
    /** When the acquire times out, on the monotonic clock. */
    private readonly deadlineMs: number,
  ) {
    const { priority } = request;
    this.ticket = {
      id: randomUUID(),
      slots: request.semaphore.compactSlots,
      answer: request.semaphore.fair || undefined,
      identity: server.identity,
      sinceMs: Date.now(),
      priorityKey: priority?.priorityKey || undefined,
      fairnessKey: priority?.fairnessKey || undefined,
      fairnessWeight: priority?.fairnessWeight || undefined,
    };
  }

  /** Waits for the turn; `undefined` when it did not come in time. The place is kept. @throws the request's abort reason */
  async nextTurn(withinMs: number): Promise<Turn | undefined> {
    if (!this.waiting) {
      this.waiting = this.waitForTurn();
      this.waiting.catch(() => undefined); // it may fail while nobody waits for it: the next call tells
    }
    const waited = new AbortController();
    const over = AbortSignal.any([this.request.signal, waited.signal]);
    try {
      const turn = await Promise.race([this.waiting, pause(withinMs, over)]);
      this.request.signal.throwIfAborted();
      if (turn) this.waiting = undefined;
      return turn ?? undefined;
    } finally {
      waited.abort();
    }
  }

  /** Somebody else was faster at `slot`. The place is kept. */
  missed(slot: string): void {
    this.missedSlot = slot;
  }

  /** Gives the place up, and passes on a turn that came too late. If the server can't be reached, the waiter ends by itself. */
  async leave(): Promise<void> {
    this.left.abort();
    if (!this.waiting) return;
    const late = this.waiting.catch(() => undefined);
    try {
      await this.cancelWaiter();
      const turn = await Promise.race([late, pause(FAREWELL_MS, this.forgotten.signal)]);
      if (turn?.slot === undefined) return;
      const declined: DeclinedNotice = { ticketId: this.ticket.id, slot: turn.slot };
      await this.server.call(() => this.server.client.workflow.getHandle(turn.queueId).signal(DECLINED, declined));
    } catch (error) {
      if (!isTransient(error) && !(error instanceof WorkflowNotFoundError)) throw error;
    } finally {
      this.forgotten.abort();
    }
  }

  /** Whether somebody waits already, or did a moment ago. */
  async isQueueThere(): Promise<boolean> {
    const queue = this.server.client.workflow.getHandle(queueId(this.request.semaphore.resource));
    try {
      return (await queue.describe()).status.name === 'RUNNING';
    } catch (error) {
      if (error instanceof WorkflowNotFoundError) return false;
      throw error;
    }
  }

  private async waitForTurn(): Promise<Turn> {
    const persistence = { untilMs: this.deadlineMs, signal: this.left.signal };
    for (let failures = 0; ; ) {
      const workflowId = waiterId(this.request.semaphore.resource, randomUUID());
      this.waiter = await this.server.persist(() => this.startWaiter(workflowId), persistence);
      if (this.left.signal.aborted) await this.cancelWaiter();
      const turn = await this.resultOf(this.waiter);
      if (turn) return turn;
      this.left.signal.throwIfAborted();
      // `null`: its time was up. Otherwise it was terminated or failed, and soon might again.
      failures = turn === null ? 0 : failures + 1;
      if (failures > 0) await pause(retryDelayMs(failures), this.left.signal);
    }
  }

  private async startWaiter(workflowId: string): Promise<Waiter> {
    const { resource, recheckAfterMs, taskQueue } = this.request.semaphore;
    const { workflow } = this.server.client;
    const waitMs = Math.max(1, Math.ceil(Math.min(WAITER_MS, this.deadlineMs - monotonicMs())));
    const input: AwaitTurnInput = { resource, ticket: this.ticket, waitMs, recheckAfterMs, missed: this.missedSlot };
    try {
      await workflow.start(WAITER_WORKFLOW, {
        workflowId,
        args: [input],
        staticSummary: `waits for ${this.server.identity}`.slice(0, 90),
        taskQueue,
        workflowExecutionTimeout: waitMs + WAITER_GRACE_MS,
      });
    } catch (error) {
      // Nobody else knows its ID: an earlier attempt got through, and its answer did not.
      if (!(error instanceof WorkflowExecutionAlreadyStartedError)) throw error;
    }
    this.missedSlot = undefined;
    return workflow.getHandle(workflowId);
  }

  /** `undefined`: it ended without a result. */
  private async resultOf(waiter: Waiter): Promise<Turn | null | undefined> {
    for (let failures = 0; ; ) {
      try {
        return await this.server.call(() => waiter.result(), POLL_MS, this.forgotten.signal);
      } catch (error) {
        if (error instanceof WorkflowFailedError || error instanceof WorkflowNotFoundError) return undefined;
        if (!isTransient(error)) throw error;
        if (!isGrpcDeadlineError(error)) await pause(retryDelayMs(failures++), this.left.signal);
        this.left.signal.throwIfAborted();
      }
    }
  }

  private async cancelWaiter(): Promise<void> {
    try {
      await this.server.call(async () => await this.waiter?.cancel());
    } catch (error) {
      if (!(error instanceof WorkflowNotFoundError)) throw error; // it has ended: fine
    }
  }
}
