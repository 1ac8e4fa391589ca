import type { OverrideState } from './operator-protocol';
import type { PreemptionTerms } from './preemption-protocol';
import type { Ticket } from './protocol';

/** The query that a wait queue answers with a {@link ShownView}. */
export const QUEUE_VIEW = 'queue';

/** What the queue knows of a holder that may have to give way to a waiter. Only while a waiter asks for it. */
export interface AskedSlot {
  /** Until when its answer may come, in epoch milliseconds; 0: none has come. Absent: it was not asked. */
  answersByMs?: number;
  /** `untilMs`: it was told to give way, and has ended by then. */
  holder?: PreemptionTerms & { runId: string; untilMs?: number };
}

/** A slot as the queue sees it. A slot of which it knows nothing has no state. */
export type SlotState =
  /** `unheard`: so many turns for it in a row, or at once, brought no word. */
  | { at: 'free'; unheard?: number }
  /** An operator's order names it. A queue that was terminated may have left it drained, so this one is to look at it once. */
  | { at: 'unseen' }
  /** `drainedBy`: the permit of this run has answered that it keeps the slot out of use. */
  | ({
      at: 'probing';
      heldSinceMs?: number;
      closed?: boolean;
      asks?: boolean;
      drainedBy?: string;
      /** After a turn that brought no word: how many had one, and who was the first of them. */
      overdue?: { turns: number; waiter: string };
    } & AskedSlot)
  /** `runId`: the queue's own claim, which it is giving up. */
  | ({ at: 'held'; sinceMs: number; probeAtMs: number; runId?: string } & AskedSlot)
  /** `turns`: so many waiters have a turn for it. `reserved`: without a turn, for the next ticket of the accumulator whose ticket that is. */
  | ({ at: 'offered'; ticketId: string; untilMs: number; reserved?: true; turns?: number } & AskedSlot)
  /** The queue is claiming it, to keep it out of use. `closed`: runs that have ended meanwhile. */
  | { at: 'draining'; closed: string[] }
  | { at: 'drained'; runId: string; renewAtMs: number };

/** The queue's whole memory. The queue hands it to its next run, and answers queries with it. */
export interface QueueView {
  tickets: Ticket[];
  slots: [slot: string, state: SlotState][];
  /** For each priority, how much each fairness key has been served, in virtual time. */
  shares: [priorityKey: number, nowAt: number, keys: [fairnessKey: string, servedTo: number][]][];
  /** The present override, if there is one. */
  override?: OverrideState;
}

/** A {@link QueueView} as the query shows it: a ticket of named slots says which of the `lists` they are. */
export interface ShownView extends Omit<QueueView, 'tickets'> {
  tickets: ((Omit<Ticket, 'slots'> & { list: number }) | Ticket)[];
  lists?: string[][];
}

/** A wait queue's argument. */
export interface QueueInput {
  tickets: Ticket[];
  /** The memory of the run that continued as new. */
  view?: ShownView;
  /** Tickets in `view` that are still owed a sign of life. */
  unanswered?: string[];
  /** Tickets in `view` that may be beyond their bound on the line: see `BoundedQueueState`. */
  inDoubt?: string[];
}
