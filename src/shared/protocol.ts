/**
 * The wire protocol, version 1: the names and payloads that cross between Workflows, clients and other languages. Workflow IDs are defined in
 * `permit-id`; everything else is defined here and nowhere else. `docs/protocol.md` describes the protocol for other languages. Payloads are
 * JSON objects to which optional fields are only ever added. Durations are integer milliseconds in names that end in `Ms`.
 */

/** Workflow types. */
export const PERMIT_WORKFLOW = 'permitSlotWorkflow';
/**
 * A permit with a pace. It is a separate type, so that a worker which does not support a pace fails its tasks loudly, and does not give the
 * slot again too early.
 */
export const PACED_PERMIT_WORKFLOW = 'pacedPermitWorkflow';
export const QUEUE_WORKFLOW = 'waitQueueWorkflow';
export const WAITER_WORKFLOW = 'awaitTurnWorkflow';

/** The Workflow types of permits. */
export const PERMIT_WORKFLOWS: readonly string[] = [PERMIT_WORKFLOW, PACED_PERMIT_WORKFLOW];

/** All types of the protocol. */
export const OUR_WORKFLOWS: readonly string[] = [...PERMIT_WORKFLOWS, QUEUE_WORKFLOW, WAITER_WORKFLOW];

/** The task queue on which permits run, unless a semaphore or a permit worker names another. */
export const DEFAULT_TASK_QUEUE = 'permits';

/** Signals that a permit takes. */
export const RENEW = 'renew';
export const RELEASE = 'release';
export const REVOKE = 'revoke';
export const WATCH = 'watch';
export const ADOPT = 'adopt';
export const PREEMPT = 'preempt';

/** Signals that a wait queue takes. */
export const ENQUEUE = 'enqueue';
export const DECLINED = 'declined';
export const MISSED = 'missed';
export const CLOSING = 'closing';
/** A permit's answer to a `watch` with `preempt`. */
export const PREEMPTIBLE = 'preemptible';
/**
 * A permit's answer to a `watch`, if that permit keeps its slot out of use. The purpose of such a permit has the same name. If a queue does
 * not know the permit, an earlier queue was terminated, and this queue adopts the permit.
 */
export const DRAINED = 'drained';
/** Another queue reports the highest priority of its waiters. */
export const INHERIT = 'inherit';
/** Another queue asks for the highest priority of this queue's waiters. */
export const ASK_PRIORITY = 'ask-priority';

/** Signals that go to a user's own Workflow, and so carry a prefix. */
export const REVOKED = 'permit-revoked';
export const TURN = 'permit-turn';
export const ENDED = 'permit-ended';
export const PREEMPTED = 'permit-preempted';

/** The query that a permit answers with a {@link PermitStatus}. */
export const PERMIT_STATUS = 'permit';
/** The query that a wait queue answers with a {@link ShownView}. */
export const QUEUE_VIEW = 'queue';

/** An update that a permit takes, and answers when it is pre-empted: a holder that can't be signalled waits for it. */
export const UNTIL_PREEMPTED = 'until-preempted';
/**
 * The update with which an operator sets or ends an {@link OverrideState}; the queue is started for it if none runs. A
 * Workflow can't send an update, so it sends a signal of the same name and payload, which has no answer.
 */
export const OVERRIDE = 'override';
/** The type of the failure with which `override` refuses an `ifVersion` that is not the present version. Details: the present state. */
export const STALE_OVERRIDE = 'StaleOverrideError';
/**
 * The type of the failure with which a permit or a queue refuses an update while it moves to another worker: send the update again. If it
 * fails a query meanwhile, the message begins with this type.
 */
export const JUST_MOVED = 'JustMovedError';

// --- Permits -----------------------------------------------------------------------------------------------------------------

/** The holder of a permit: a Workflow, or a client outside with its identity. */
export interface Holder {
  /** The holding Workflow; absent for a holder outside Workflows. */
  workflowId?: string;
  /** The run of that Workflow. */
  runId?: string;
  /** The type of that Workflow. */
  workflowType?: string;
  /** A holder outside Workflows: its client's identity, by default `pid@host`. */
  identity?: string;
}

/**
 * The slots that an acquirer takes a resource to have, in few bytes: a capacity; or, for named slots, their number and a hash of
 * the names. Nothing makes acquirers agree, so this shows operators whether they do.
 */
export type SlotsMark = number | string;

/** On what terms a holder gives way. */
export interface PreemptionTerms {
  /** How long the holder may keep the permit after it was told to give way; at most the lease. */
  graceMs: number;
  /** The holder's own priority: it gives way to waiters with a smaller number, and to no others. */
  priorityKey: number;
}

/** A permit's memo. Any client of the namespace can read the slot's holder and purpose from it. */
export interface PermitMemo {
  leaseMs: number;
  holder: Holder;
  purpose?: string;
  /** A client generates a new ID for each claim, to recognise its own permit if the answer gets lost on the way. */
  claimId?: string;
  /** The slots that its claimer takes the resource to have. */
  slots?: SlotsMark;
  /** The ID of the permit pool that holds the permit, and hands it from caller to caller in its process. */
  pool?: string;
  /** The slot is not given again before this time has passed since it was taken, whatever happens to the holder. */
  paceMs?: number;
  /** The holder has opted in to give way. */
  preemptible?: PreemptionTerms;
  /** Until when the pace keeps the slot after the holder has released the permit, in epoch milliseconds. Set by the permit at the release. */
  pacedUntilMs?: number;
  /** When the holder released the permit, in epoch milliseconds. Set together with `pacedUntilMs`. */
  releasedAtMs?: number;
  /** When the permit ends because a waiter has asked for it, in epoch milliseconds. */
  preemptedUntilMs?: number;
  /** The revoker's reason. The permit sets it before it ends as revoked. */
  revokedBecause?: string;
}

/** A permit's argument. */
export interface PermitInput extends PermitMemo {
  /** The queue that the permit notifies when it closes, as if that queue had sent `watch`. A waiter sets it when it claims on a turn. */
  watchedBy?: string;
}

export const PERMIT_OUTCOMES = ['released', 'lease-expired', 'revoked', 'preempted'] as const;

/**
 * How a permit ended: its Workflow's result.
 *
 * - `released`: its holder released it, or its Workflow was cancelled.
 * - `lease-expired`: no renewal came before the lease ended.
 * - `revoked`: an operator took the permit away.
 * - `preempted`: its holder gave way to a waiter of higher priority, or the grace ended.
 */
export type PermitOutcome = (typeof PERMIT_OUTCOMES)[number];

/** A permit's answer to a query: the part that its memo does not contain. */
export interface PermitStatus {
  /** When the permit ends unless it is renewed, in epoch milliseconds. */
  deadlineMs: number;
}

/** Names one permit, so that another holder can take it over: plain JSON, fit for an argument or an environment variable. */
export interface PermitRef {
  /** The name of the shared thing. */
  resource: string;
  /** Which of the resource's slots the permit holds. */
  slot: string;
  /** The permit's Workflow, `permit:<resource>:<slot>`. */
  workflowId: string;
  /** The permit's run. It orders the permits of one slot, and is the last part of the fencing token. */
  runId: string;
  /** How long the permit may go unrenewed, in milliseconds. */
  leaseMs: number;
  /** As in the permit's memo. */
  paceMs?: number;
  /** Its adopter is notified of a pre-emption. */
  preemptible?: boolean;
}

/** `renew`, to a permit: may contain another lease for this renewal. */
export type RenewInput = Partial<Pick<PermitMemo, 'leaseMs'>>;

/** The longest reason of a revocation or an override, in characters. */
export const MAX_REASON_LENGTH = 1_000;

/** `revoke`, to a permit: an operator takes it away. */
export interface RevokeInput {
  reason?: string;
}

/**
 * `adopt`, to a permit, pinned to its run: another holder has it from now on. The permit renews its lease and changes the holder in its memo.
 * If the new holder is a Workflow, the permit notifies it of its end with `permit-ended`. (Its first holder is its parent, which the server
 * notifies.)
 */
export interface AdoptInput {
  holder: Holder;
}

/** `preempt`, from the queue to a permit, pinned to its run. The permit decides whether this waiter outranks its holder. */
export interface PreemptInput {
  /** The waiter's priority. */
  priorityKey: number;
}

/** `watch`, to a permit: notify this queue when you close. Delivered means held; "not found" means free. */
export interface WatchInput {
  queueId: string;
  /** A waiter asks for a holder to give way, so answer with `preemptible` if your holder may have to. */
  preempt?: boolean;
}

/** `permit-revoked`, from a permit to the Workflow that holds it. Its result, `"revoked"`, has no room for a reason. */
export interface RevokedNotice {
  workflowId: string;
  runId: string;
  reason?: string;
}

/** `permit-ended`, from a permit to the Workflow that adopted it: the permit is about to end. */
export interface EndedNotice extends RevokedNotice {
  outcome: PermitOutcome;
}

/** `permit-preempted`, from a permit to the Workflow that holds it: give the permit back. It ends at this time. */
export interface PreemptedNotice {
  workflowId: string;
  runId: string;
  endsAtMs: number;
}

// --- Waiting -----------------------------------------------------------------------------------------------------------------

/** On a ticket: the permit pool that waits, and how many permits the pool would hold with this permit. */
export interface PoolShare {
  /** A new random ID for each pool. */
  id: string;
  /** From 1. Fewer go first. Another pool gives a permit back for this ticket only if this pool then has no more than the giver had. */
  nth: number;
}

/** One acquirer's place in the queue. */
export interface Ticket {
  /**
   * Makes `enqueue` idempotent: a ticket may be sent any number of times, and counts once. The last message names the
   * waiter, so that a place can pass to the next waiter of the same acquirer.
   */
  id: string;
  /** The Workflow that gets the `permit-turn`. */
  waiter: { workflowId: string; runId: string };
  /** The slots that the acquirer would take: a capacity (slots `"0"` to `"N-1"`), or names. */
  slots: number | string[];
  /** When the acquire began, in epoch milliseconds: the place among equals, even in a queue that had to start again. */
  sinceMs: number;
  /** Asks for a sign of life, a turn with `waiting`. Set when the ticket is sent again after a silence. */
  answer?: boolean;
  /** Takes no place if this many callers wait already: the answer is a turn without a slot. */
  maxWaiting?: number;
  /**
   * How a full queue makes room for the ticket, within its `maxWaiting`: of this ticket and the other tickets with the same value, the oldest
   * of the lowest priority leaves the queue. Absent: the ticket itself gets no place.
   */
  whenFull?: 'drop-oldest';
  /** The identity of the client that waits through the ticket, for showing. */
  identity?: string;
  /** Temporal's own priority: 1 is served first, 3 is the default; then weighted fairness between keys. */
  priorityKey?: number;
  fairnessKey?: string;
  fairnessWeight?: number;
  /** The waiter asks for a holder of lower priority to give way. */
  preempt?: boolean;
  /** Absent for an acquirer of one permit: every permit pool gives permits back for such a ticket. */
  pool?: PoolShare;
  /** How many permits the accumulator wants in all. While an operator has left fewer, it gets no place: a turn without a slot. */
  permits?: number;
  /** How many of these permits the accumulator keeps already. An accumulator that keeps any comes before all that keep none. */
  kept?: number;
  /** Other resources of which the caller keeps a permit while it waits. The ticket gets the highest priority of the waiters for these resources. */
  inherits?: string[];
  /**
   * The permits of `inherits` only admit the caller to the resource of the queue, of which it has no permit yet. Instead of a higher priority,
   * it gets a turn with `giveWay`: the caller gives these permits back, and claims again from there.
   */
  givesWay?: boolean;
}

/** `permit-turn`, from the queue to a waiter: the slot looks free, try it. A turn grants nothing. */
export interface Turn {
  /** The queue to answer to. */
  queueId: string;
  ticketId: string;
  /** Absent, without `waiting`, when the queue is full and has not taken the ticket: try on your own, and come back. */
  slot?: string;
  /** In a waiter's result: as many callers as the ticket's `maxWaiting` wait already. */
  full?: boolean;
  /** The ticket has left the queue without a slot: its `whenFull` is `drop-oldest`, and a later ticket has taken its place. */
  superseded?: boolean;
  /** No turn yet, but an answer: the queue is alive and has your ticket. */
  waiting?: boolean;
  /** The ticket, which has `givesWay`, has left the queue: a waiter of higher priority wants the permit that admits the caller. */
  giveWay?: boolean;
  /** With a slot above the ticket's own capacity: the capacity that an operator has set, which is why the slot is offered. */
  capacity?: number;
  /** With a slot of the ticket that another waiter does not know of: the slots that the other waiter takes the resource to have. */
  others?: SlotsMark;
}

/** `missed`, from a waiter whose slot another acquirer took first: the waiter keeps its place. */
export interface MissedNotice {
  ticket: Ticket;
  slot: string;
}

/**
 * `declined`, from a waiter that waits no longer (served, timed out or cancelled), or from a permit worker about a waiter whose Workflow has
 * ended. `slot`: the slot of the turn that the waiter passes on.
 */
export interface DeclinedNotice {
  ticketId: string;
  slot?: string;
  /** The run of the waiter that leaves. The queue ignores the message if the ticket belongs to another run by now. */
  runId?: string;
}

/** `closing`, from a watched permit to the queue: this slot is about to be free. */
export interface ClosingNotice {
  slot: string;
  runId: string;
  /** The holder that has released the permit: a Workflow's ID or a client's identity. Absent if the permit ended in any other way. */
  releasedBy?: string;
}

/** `drained`, from a permit to its queue. */
export type DrainedNotice = ClosingNotice;

/** `preemptible`, from a permit to its queue. Only a permit whose holder has opted in sends it. */
export interface PreemptibleNotice extends PreemptionTerms {
  slot: string;
  runId: string;
  /** The holder gives way already. */
  givesWay?: boolean;
}

/** `inherit`, to the queue in which holders of `resource` may wait: each of them has at least this priority. */
export interface InheritNotice {
  resource: string;
  priorityKey: number;
}

/** `ask-priority`, to the queue of a resource of which a caller in the asking queue keeps a permit: answer with `inherit`. */
export interface PriorityQuestion {
  /** The resource of the queue that asks. */
  resource: string;
}

/** The argument of a waiter, which waits in the queue for a client. Its result is the turn, or `null` if none came in time. */
export interface AwaitTurnInput {
  resource: string;
  ticket: Omit<Ticket, 'waiter'>;
  /** When the waiter gives up. A client that still waits starts another waiter by then; a dead client does not. */
  waitMs: number;
  /** As the semaphore option of that name. */
  recheckAfterMs: number;
  /** The slot of the ticket's last turn, which another acquirer took first: the place is kept. */
  missed?: string;
}

// --- What an operator sets ---------------------------------------------------------------------------------------------------

/** `override`, to the queue: what an operator changes. Absent fields stay as they are, except the reason. */
export interface OverrideInput {
  /** The slots that acquirers use without an override: a capacity, or names. */
  slots: number | string[];
  /** How many slots are to be in use; if more than a `slots` that is a number, the queue also offers the slots above it. */
  capacity?: number;
  /** When that capacity ends automatically, in epoch milliseconds: what was set before is then in force again. */
  capacityUntilMs?: number;
  paused?: boolean;
  /**
   * Instead of `paused` and `capacity`: no slot is in use until this time, in epoch milliseconds. A pause that ends later, or has
   * no end, stays as it is.
   */
  pauseUntilMs?: number;
  reason?: string;
  /** The version of the limits file that this comes from. */
  fileVersion?: number;
  /** Change the override only if it has this version now; `0`: only if none is set. */
  ifVersion?: number;
}

/** The present override. The update answers with it, without `capacity` and pause if nothing is set any more. */
export interface OverrideState {
  /** Grows with every change, even from one override to the next: it is at least the time of the change in epoch milliseconds. */
  version: number;
  slots: number | string[];
  /** Absent if all of `slots` are to be in use. */
  capacity?: number;
  /** When the capacity ends automatically, if it does … */
  capacityUntilMs?: number;
  /** … and what is then set again, as if it had been set all the time. */
  before?: Pick<OverrideState, 'capacity' | 'reason' | 'fileVersion'>;
  paused: boolean;
  /** When the pause ends automatically, if it does. */
  pausedUntilMs?: number;
  reason?: string;
  /**
   * The version of the limits file that the override comes from; absent if an operator has since set something without an end. If one file
   * ends what another file had set, this version stays even if nothing else is set, so that the older file does not take effect again.
   */
  fileVersion?: number;
}

// --- What the queue remembers, shows, and hands to its next run --------------------------------------------------------------

/** What the queue knows of a holder that may have to give way to a waiter. Only while a waiter asks for that. */
export interface AskedSlot {
  /** Until when the holder's answer may come, in epoch milliseconds; 0: none has come in time. Absent: the holder was not asked. */
  answersByMs?: number;
  /** `untilMs`: the holder was told to give way, and should have ended by this time. */
  holder?: PreemptionTerms & { runId: string; untilMs?: number };
}

/** Turns for one slot that got no reply: how many waiters had a turn at once, and which waiter was the first of all these turns. */
export interface UnheardTurns {
  turns: number;
  first: string;
}

/** A slot as the queue sees it. A slot of which it knows nothing has no state. */
export type SlotState =
  | { at: 'free'; unheard?: UnheardTurns }
  /** An operator command names the slot. A queue that was terminated may have left it drained, so this queue is to probe it once. */
  | { at: 'unseen' }
  /** `drainedBy`: the permit of this run has answered that it keeps the slot out of use. */
  | ({
      at: 'probing';
      heldSinceMs?: number;
      closed?: boolean;
      asks?: boolean;
      drainedBy?: string;
      /** After a turn that got no reply. `waiter`: the waiter of that turn; of several turns at once, the waiter of the first. */
      overdue?: UnheardTurns & { waiter: string };
    } & AskedSlot)
  /** `runId`: the queue's own claim, which it is giving up. */
  | ({ at: 'held'; sinceMs: number; probeAtMs: number; runId?: string } & AskedSlot)
  /** `unheard`: how many waiters have a turn for it. `reserved`: no turn, but kept for the next ticket of the accumulator with this ticket. */
  | ({ at: 'offered'; ticketId: string; untilMs: number; reserved?: true; unheard?: UnheardTurns } & AskedSlot)
  /** The queue is claiming it, to keep it out of use. `closed`: runs that have ended meanwhile. */
  | { at: 'draining'; closed: string[] }
  | { at: 'drained'; runId: string; renewAtMs: number };

/** The queue's whole memory. The queue hands it to its next run, and answers queries with it. */
export interface QueueView {
  tickets: Ticket[];
  slots: [slot: string, state: SlotState][];
  /** For each priority: how much each fairness key has been served, in virtual time. */
  shares: [priorityKey: number, nowAt: number, keys: [fairnessKey: string, servedTo: number][]][];
  /** The present override, if there is one. */
  override?: OverrideState;
  /** When the queue last asked its silent waiters whether they are there. */
  calledAtMs?: number;
}

/** A ticket as a row of a table. `slots` is a number in the table's lists. */
export type TicketRow = [
  id: string,
  workflowId: string,
  runId: string | null,
  slots: number,
  sinceMs: number,
  rare?: Record<string, unknown>,
];

/** The fields of a ticket that have no column in a row, and their letters in its `rare`. */
export const ROW_LETTERS = {
  answer: 'a',
  maxWaiting: 'm',
  whenFull: 'd',
  identity: 'i',
  priorityKey: 'p',
  fairnessKey: 'f',
  fairnessWeight: 'w',
  preempt: 'e',
  pool: 'o',
  permits: 'n',
  kept: 'k',
  inherits: 'h',
  givesWay: 'y',
} as const satisfies Record<Exclude<keyof Ticket, 'id' | 'waiter' | 'slots' | 'sinceMs'>, string>;

/** All tickets of a queue. */
export interface TicketTable {
  rows: TicketRow[];
  /** The slots that the tickets would take: each capacity, and each list of names, once. */
  lists: Ticket['slots'][];
}

/**
 * A {@link QueueView} as the query shows it, and as the next run gets it: a ticket of named slots refers to one of the `lists`. In a
 * long queue, and for the next run, there are `rows` instead of tickets.
 */
export interface ShownView extends Omit<QueueView, 'tickets'>, Partial<TicketTable> {
  tickets: ((Omit<Ticket, 'slots'> & { list: number }) | Ticket)[];
}

/** A wait queue's argument. */
export interface QueueInput {
  tickets: Ticket[];
  /** The memory of the run that continued as new. */
  view?: ShownView;
  /** Tickets in `view` that are still owed a sign of life: the numbers of their rows, or IDs. */
  unanswered?: (number | string)[];
  /** Tickets in `view` for which the queue may be too long (`maxWaiting`). */
  inDoubt?: (number | string)[];
  /** Tickets in `view` that are to give way: the numbers of their rows. */
  outranked?: number[];
  /** Tickets in `view` for which the queue is still to ask other queues for their priorities: the numbers of their rows. */
  unasked?: number[];
  /** Tickets that the queue has refused, and whose waiters are still owed the answer. */
  refused?: Pick<Ticket, 'id' | 'waiter'>[];
}
