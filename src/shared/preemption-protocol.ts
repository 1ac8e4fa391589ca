/** The part of the wire protocol by which a holder gives way to a waiter of higher priority. Rules as in `protocol`. */

/** A signal that a permit takes: give way. */
export const PREEMPT = 'preempt';

/** An update that a permit takes, and answers when it is pre-empted: a holder that nobody can signal waits for it. */
export const UNTIL_PREEMPTED = 'until-preempted';

/** A signal that a wait queue takes: a permit's answer to a `watch` with `preempt`. */
export const PREEMPTIBLE = 'preemptible';

/** A signal to the Workflow that holds a permit. */
export const PREEMPTED = 'permit-preempted';

/** On what terms a holder gives way. */
export interface PreemptionTerms {
  /** How long the holder may keep the permit after it was told; at most the lease. */
  graceMs: number;
  /** The holder's own priority: it gives way to waiters with a smaller number, and to no others. */
  priorityKey: number;
}

/** Only what goes over the wire. */
export function termsOf({ graceMs, priorityKey }: PreemptionTerms): PreemptionTerms {
  return { graceMs, priorityKey };
}

/** In the memo and in the argument of a permit whose holder has opted in. */
export interface PreemptionMemo {
  preemptible?: PreemptionTerms;
  /** When the permit ends because a waiter has asked for it, in epoch milliseconds. */
  preemptedUntilMs?: number;
}

/** On a ticket: its waiter asks that a holder of lower priority gives way. */
export interface PreemptingTicket {
  preempt?: boolean;
}

/** On a `watch`: a waiter asks that somebody gives way, so answer with `preemptible` if you may. */
export interface PreemptionQuestion {
  preempt?: boolean;
}

/** On a reference to a permit: its adopter hears of a pre-emption. */
export interface PreemptibleRef {
  preemptible?: boolean;
}

/** `preemptible`, from a permit to its queue. Only a permit whose holder has opted in sends it. */
export interface PreemptibleNotice extends PreemptionTerms {
  slot: string;
  runId: string;
  /** It gives way already. */
  givesWay?: boolean;
}

/** `preempt`, from the queue to a permit, pinned to its run. The permit decides whether this waiter outranks its holder. */
export interface PreemptInput {
  /** The waiter's priority. */
  priorityKey: number;
}

/** `permit-preempted`, from a permit to the Workflow that holds it: give it back. It ends at that time. */
export interface PreemptedNotice {
  workflowId: string;
  runId: string;
  endsAtMs: number;
}
