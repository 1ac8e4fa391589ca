import type { OverrideState } from './operator-protocol';
import type { Ticket } from './protocol';

/** The query that a wait queue answers with a {@link QueueView}. */
export const QUEUE_VIEW = 'queue';

/** What a slot is to the queue. One of which it knows nothing has no state. */
export type SlotState =
  | { at: 'free' }
  | { at: 'probing'; heldSinceMs?: number; closed?: boolean }
  /** `runId`: the queue's own claim, which it is giving up. */
  | { at: 'held'; sinceMs: number; probeAtMs: number; runId?: string }
  | { at: 'offered'; ticketId: string; untilMs: number }
  /** The queue is claiming it, to keep it out of use. `closed`: runs that have ended meanwhile. */
  | { at: 'draining'; closed: string[] }
  | { at: 'drained'; runId: string; renewAtMs: number };

/** The queue's whole memory: what it hands to its next run, and shows to who asks. */
export interface QueueView {
  tickets: Ticket[];
  slots: [slot: string, state: SlotState][];
  /** For each priority, how much each fairness key has been served, in virtual time. */
  shares: [priorityKey: number, nowAt: number, keys: [fairnessKey: string, servedTo: number][]][];
  /** What an operator has set, if anything. */
  override?: OverrideState;
}

/** What a wait queue is started with. */
export interface QueueInput {
  tickets: Ticket[];
  /** Of a run that continued as new. */
  view?: QueueView;
  /** Tickets in `view` that are still owed a sign of life. */
  unanswered?: string[];
}
