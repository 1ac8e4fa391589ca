import type { WorkflowExecutionDescription } from '@temporalio/client';
import { isPaused } from '../../shared/open';
import type { Ticket } from '../../shared/protocol';
import { waiterKey } from '../../shared/request';
import { monotonicMs } from './clock';

/** A look asks about this many waiters of a queue, first those that it has not asked about for longest. */
const WAITERS_PER_LOOK = 100;

/** What the server says of a Workflow that has waited for long. */
export interface LookedAtWaiter {
  readonly isGone: boolean;
  readonly isPaused: boolean;
  readonly parent: string | undefined;
}

/**
 * The server does not notify a queue when a waiter's Workflow is terminated or times out. So a look at the queue asks the server about each
 * waiter that has waited for long, and again after that time. Asking the server adds nothing to any history.
 */
export class LongWaiters {
  /** The runs that wait: when the server was last asked about each, and what it said. */
  private readonly waiters = new Map<string, { atMs: number } & LookedAtWaiter>();

  constructor(private readonly longMs: number) {}

  /** One ticket of each waiter that this look is to ask about. @param tickets all tickets of the queue; waiters without one are forgotten */
  due(tickets: readonly Ticket[]): Ticket[] {
    const all = new Map(tickets.map((ticket) => [waiterKey(ticket), ticket]));
    for (const key of this.waiters.keys()) if (!all.has(key)) this.waiters.delete(key);
    const askedAtMs = (ticket: Ticket) => this.waiters.get(waiterKey(ticket))?.atMs ?? Number.NEGATIVE_INFINITY;
    return [...all.values()]
      .filter(
        (ticket) => Date.now() - ticket.sinceMs >= this.longMs && monotonicMs() - askedAtMs(ticket) >= this.longMs,
      )
      .sort((a, b) => askedAtMs(a) - askedAtMs(b) || a.sinceMs - b.sinceMs)
      .slice(0, WAITERS_PER_LOOK);
  }

  /** @param describe returns `undefined` for a Workflow that has ended */
  async ask(
    ticket: Ticket,
    describe: (workflowId: string) => Promise<WorkflowExecutionDescription | undefined>,
  ): Promise<void> {
    const atMs = monotonicMs();
    const waiter = await describe(ticket.waiter.workflowId);
    this.waiters.set(waiterKey(ticket), {
      atMs,
      isGone: !waiter,
      isPaused: waiter !== undefined && isPaused(waiter),
      parent: waiter?.parentExecution?.workflowId ?? undefined,
    });
  }

  /** `undefined` if the server was not asked about this waiter yet. */
  of(ticket: Ticket): LookedAtWaiter | undefined {
    return this.waiters.get(waiterKey(ticket));
  }
}
