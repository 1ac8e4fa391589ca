/**
 * The wire protocol, version 1: the names and payloads that cross between Workflows, clients and other languages. Workflow IDs stand in
 * `permit-id`; everything else stands here and nowhere else. `docs/protocol.md` is the same for other languages. Payloads are JSON
 * objects to which optional fields are only ever added. Durations are integer milliseconds in names that end in `Ms`.
 */

/** Workflow types. */
export const PERMIT_WORKFLOW = 'permitSlotWorkflow';
/**
 * A permit with a pace. A type of its own, so that a worker which knows no pace fails its tasks loudly, and does not give the slot
 * again too early.
 */
export const PACED_PERMIT_WORKFLOW = 'pacedPermitWorkflow';
export const QUEUE_WORKFLOW = 'waitQueueWorkflow';
export const WAITER_WORKFLOW = 'awaitTurnWorkflow';

/** The types of which a permit is. */
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
 * A permit's answer to a `watch`, where that permit keeps its slot out of use. Its purpose has the same name. A queue that does not know
 * the permit comes after one that was terminated, and adopts it.
 */
export const DRAINED = 'drained';
/** Another queue tells the best priority in its line. */
export const INHERIT = 'inherit';
/** Another queue asks for the best priority in this line. */
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

/** An update that a permit takes, and answers when it is pre-empted: a holder that nobody can signal waits for it. */
export const UNTIL_PREEMPTED = 'until-preempted';
/**
 * The update by which an operator sets or ends an {@link OverrideState}; the queue is started for it if there is none. A
 * Workflow can't send an update, so it sends a signal of the same name and payload, which has no answer.
 */
export const OVERRIDE = 'override';
/** The type of the failure with which `override` refuses an `ifVersion` that is not the present one. Details: the present state. */
export const STALE_OVERRIDE = 'StaleOverrideError';
/**
 * The type of the failure with which a permit or a queue refuses an update while it moves to another worker: send it again. The message
 * with which it fails a query then begins with it.
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
 * The slots that an acquirer takes a resource to have, in few bytes: a capacity; or, of names, how many there are and a hash of
 * them. Nothing makes acquirers agree, so this lets operators see where they don't.
 */
export type SlotsMark = number | string;

/** On what terms a holder gives way. */
export interface PreemptionTerms {
  /** How long the holder may keep the permit after it was told; at most the lease. */
  graceMs: number;
  /** The holder's own priority: it gives way to waiters with a smaller number, and to no others. */
  priorityKey: number;
}

/** A permit's memo. Anyone can read the slot's holder and its purpose there. */
export interface PermitMemo {
  leaseMs: number;
  holder: Holder;
  purpose?: string;
  /** A client draws it anew for each claim, to know its own permit again when the answer gets lost on the way. */
  claimId?: string;
  /** The slots that its claimer takes the resource to have. */
  slots?: SlotsMark;
  /** The ID of the permit pool that holds the permit, and hands it from caller to caller in its process. */
  pool?: string;
  /** The slot is not given again before this time has passed since it was taken, whatever becomes of the holder. */
  paceMs?: number;
  /** The holder has opted in to give way. */
  preemptible?: PreemptionTerms;
  /** The permit sets it when its holder has released it, and it stays until then, in epoch milliseconds. */
  pacedUntilMs?: number;
  /** When that was, in epoch milliseconds. */
  releasedAtMs?: number;
  /** When the permit ends because a waiter has asked for it, in epoch milliseconds. */
  preemptedUntilMs?: number;
  /** The revoker's reason. The permit sets it before it ends as revoked. */
  revokedBecause?: string;
}

/** A permit's argument. */
export interface PermitInput extends PermitMemo {
  /** The queue that the permit tells when it closes, as if it had sent `watch`. A waiter sets it when it claims on a turn. */
  watchedBy?: string;
}

export const PERMIT_OUTCOMES = ['released', 'lease-expired', 'revoked', 'preempted'] as const;

/**
 * How a permit ended: its Workflow's result.
 *
 * - `released`: its holder released it, or its Workflow was cancelled.
 * - `lease-expired`: no renewal came before the lease ended.
 * - `revoked`: an operator took it away.
 * - `preempted`: its holder gave way to a waiter of higher priority, or the grace ended.
 */
export type PermitOutcome = (typeof PERMIT_OUTCOMES)[number];

/** A permit's answer to a query: the part that its memo does not have. */
export interface PermitStatus {
  /** When it ends unless it is renewed, in epoch milliseconds. */
  deadlineMs: number;
}

/** Names one permit, so that another holder can take it over: plain JSON, fit for an argument or an environment variable. */
export interface PermitRef {
  /** The name of the shared thing. */
  resource: string;
  /** Which of the resource's slots it holds. */
  slot: string;
  /** The permit's Workflow, `permit:<resource>:<slot>`. */
  workflowId: string;
  /** It orders the permits of one slot, and is the last part of the fencing token. */
  runId: string;
  /** How long it may go unrenewed, in milliseconds. */
  leaseMs: number;
  /** As in the permit's memo. */
  paceMs?: number;
  /** Its adopter is notified of a pre-emption. */
  preemptible?: boolean;
}

/** `renew`, to a permit: with another lease than its own, for this renewal. */
export type RenewInput = Partial<Pick<PermitMemo, 'leaseMs'>>;

/** The longest reason of a revocation or an override, in characters. */
export const MAX_REASON_LENGTH = 1_000;

/** `revoke`, to a permit: an operator takes it away. */
export interface RevokeInput {
  reason?: string;
}

/**
 * `adopt`, to a permit, pinned to its run: somebody else holds it from now on. It renews, changes the holder in the memo,
 * and makes the new holder, if it is a Workflow, the one to be told of the end, by `permit-ended`. (Its first holder is its
 * parent, and needs no word of that.)
 */
export interface AdoptInput {
  holder: Holder;
}

/** `preempt`, from the queue to a permit, pinned to its run. The permit decides whether this waiter outranks its holder. */
export interface PreemptInput {
  /** The waiter's priority. */
  priorityKey: number;
}

/** `watch`, to a permit: tell this queue when you close. Delivered means held; "not found" means free. */
export interface WatchInput {
  queueId: string;
  /** A waiter asks that somebody gives way, so answer with `preemptible` if you may. */
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

/** `permit-preempted`, from a permit to the Workflow that holds it: give it back. It ends at that time. */
export interface PreemptedNotice {
  workflowId: string;
  runId: string;
  endsAtMs: number;
}

// --- Waiting -----------------------------------------------------------------------------------------------------------------

/** On a ticket: the permit pool that waits, and how many permits it would hold with this one. */
export interface PoolShare {
  /** Drawn anew for each pool. */
  id: string;
  /** From 1. Fewer go first. Another pool gives a permit back to this ticket only if that then has no more than the giver had. */
  nth: number;
}

/** One acquirer's place in the queue. */
export interface Ticket {
  /**
   * Makes `enqueue` idempotent: a ticket may be sent any number of times, and counts once. The last one sent names the
   * waiter, so that a place can pass to the next waiter of the same acquirer.
   */
  id: string;
  /** The Workflow that gets the `permit-turn`. */
  waiter: { workflowId: string; runId: string };
  /** The slots it would take: a capacity (slots `"0"` to `"N-1"`), or names. */
  slots: number | string[];
  /** When its acquire began, in epoch milliseconds: its place among equals, also in a queue that had to start anew. */
  sinceMs: number;
  /** Asks for a sign of life, a turn with `waiting`. Set when the ticket is sent again after a silence. */
  answer?: boolean;
  /** Takes no place when so many wait already: the answer is a turn without a slot. */
  maxWaiting?: number;
  /**
   * How a line that is full makes room for it, within its `maxWaiting`: of the tickets that say this too, and of itself, the oldest of the
   * lowest priority leaves the line. Absent: the ticket itself gets no place.
   */
  whenFull?: 'drop-oldest';
  /** The identity of the client that waits through it, for showing. */
  identity?: string;
  /** Temporal's own priority: 1 is served first, 3 is the default; then weighted fairness between keys. */
  priorityKey?: number;
  fairnessKey?: string;
  fairnessWeight?: number;
  /** Its waiter asks that a holder of lower priority gives way. */
  preempt?: boolean;
  /** Absent for an acquirer of one permit: every permit pool gives back to that. */
  pool?: PoolShare;
  /** How many permits the accumulator wants in all. While an operator has left fewer, it gets no place: a turn without a slot. */
  permits?: number;
  /** How many of them the accumulator keeps already. One that keeps any comes before all that keep none. */
  kept?: number;
  /** Other resources of which the caller keeps a permit while it waits. It has the best priority of those who wait for them, too. */
  inherits?: string[];
  /**
   * These only admit the caller to the resource of the queue, of which it has no permit yet. A turn with `giveWay` in place of the
   * priority: the caller gives them back, and claims again from there.
   */
  givesWay?: boolean;
}

/** `permit-turn`, from the queue to a waiter: slot `slot` looks free, try it. It grants nothing. */
export interface Turn {
  /** Where to answer. */
  queueId: string;
  ticketId: string;
  /** Absent, without `waiting`, when the queue is full and has not taken the ticket: try on your own, and come back. */
  slot?: string;
  /** In a waiter's result: the line has as many as its ticket's `maxWaiting`. */
  full?: boolean;
  /** Out of the line, without a slot: a later ticket has taken the place of this one, whose `whenFull` is `drop-oldest`. */
  superseded?: boolean;
  /** No turn yet, but an answer: the queue is alive and has your ticket. */
  waiting?: boolean;
  /** No turn, and out of the line: somebody of a better priority waits for what admits the waiter, whose ticket says `givesWay`. */
  giveWay?: boolean;
  /** With a slot above the ticket's own count: the capacity that an operator has set, which is why it is offered. */
  capacity?: number;
  /** With a slot of the ticket's own that another waiter does not know: the slots that the other takes the resource to have. */
  others?: SlotsMark;
}

/** `missed`, from a waiter whose slot somebody else took first: it keeps its place. */
export interface MissedNotice {
  ticket: Ticket;
  slot: string;
}

/**
 * `declined`, from a waiter that waits no longer (served, timed out or cancelled); from a permit worker, of a waiter whose Workflow has
 * ended. `slot`: the turn that it passes on.
 */
export interface DeclinedNotice {
  ticketId: string;
  slot?: string;
  /** The run of the waiter that leaves. The queue ignores it when the ticket belongs to another one by now. */
  runId?: string;
}

/** `closing`, from a watched permit to the queue: this slot is about to be free. */
export interface ClosingNotice {
  slot: string;
  runId: string;
  /** Its holder, a Workflow by its ID or a client by its identity, has released it. Absent where it ended in any other way. */
  releasedBy?: string;
}

/** `drained`, from a permit to its queue. */
export type DrainedNotice = ClosingNotice;

/** `preemptible`, from a permit to its queue. Only a permit whose holder has opted in sends it. */
export interface PreemptibleNotice extends PreemptionTerms {
  slot: string;
  runId: string;
  /** It gives way already. */
  givesWay?: boolean;
}

/** `inherit`, to the queue in whose line holders of `resource` may wait: each of them has at least this priority. */
export interface InheritNotice {
  resource: string;
  priorityKey: number;
}

/** `ask-priority`, to the queue of a resource of which a caller in the asking queue's line keeps a permit: answer by `inherit`. */
export interface PriorityQuestion {
  /** That of the queue that asks. */
  resource: string;
}

/** The argument of a waiter, which lines up for a client. Its result is its turn, or `null` when none came in time. */
export interface AwaitTurnInput {
  resource: string;
  ticket: Omit<Ticket, 'waiter'>;
  /** When the waiter gives up. A client that still waits starts another one by then; a dead client does not. */
  waitMs: number;
  /** As the semaphore option of that name. */
  recheckAfterMs: number;
  /** The slot of this ticket's last turn, at which its owner was beaten: the place is kept. */
  missed?: string;
}

// --- What an operator sets ---------------------------------------------------------------------------------------------------

/** `override`, to the queue: what an operator changes. Absent fields stay as they are, except the reason. */
export interface OverrideInput {
  /** The slots that acquirers use without an override: a capacity, or names. */
  slots: number | string[];
  /** How many of them are to be in use; above a `slots` that is a number: how many more the queue is to offer. */
  capacity?: number;
  /** When that capacity ends by itself, in epoch milliseconds: what was set before is in force again then. */
  capacityUntilMs?: number;
  paused?: boolean;
  /**
   * In the place of `paused` and `capacity`: no slot is in use until then, in epoch milliseconds. A pause that ends later, or has
   * no end, stays as it is.
   */
  pauseUntilMs?: number;
  reason?: string;
  /** The version of the limits file that says so. */
  fileVersion?: number;
  /** Only if the override is of this version now; `0`: only if there is none. */
  ifVersion?: number;
}

/** The present override. The update answers with it, without `capacity` and pause when nothing is set any more. */
export interface OverrideState {
  /** Grows with every change, and from one override to the next: it is at least the time of the change in epoch milliseconds. */
  version: number;
  slots: number | string[];
  /** Absent when as many as `slots` are to be in use. */
  capacity?: number;
  /** When the capacity ends by itself, if it does … */
  capacityUntilMs?: number;
  /** … and what is set again then, as if it had been all the time. */
  before?: Pick<OverrideState, 'capacity' | 'reason' | 'fileVersion'>;
  paused: boolean;
  /** When the pause ends by itself, if it does. */
  pausedUntilMs?: number;
  reason?: string;
  /**
   * The version of the limits file that has said so last; absent if an operator has set something since that has no end. One file's order
   * in the place of another's leaves this also where nothing else is set, so that the older file does not come back.
   */
  fileVersion?: number;
}

// --- What the queue remembers, shows, and hands to its next run --------------------------------------------------------------

/** What the queue knows of a holder that may have to give way to a waiter. Only while a waiter asks for it. */
export interface AskedSlot {
  /** Until when its answer may come, in epoch milliseconds; 0: none has come. Absent: it was not asked. */
  answersByMs?: number;
  /** `untilMs`: it was told to give way, and has ended by then. */
  holder?: PreemptionTerms & { runId: string; untilMs?: number };
}

/** Turns for one slot that brought no word: how many had one at once, and which waiter was the first of all in a row. */
export interface UnheardTurns {
  turns: number;
  first: string;
}

/** A slot as the queue sees it. A slot of which it knows nothing has no state. */
export type SlotState =
  | { at: 'free'; unheard?: UnheardTurns }
  /** An operator's order names it. A queue that was terminated may have left it drained, so this one is to look at it once. */
  | { at: 'unseen' }
  /** `drainedBy`: the permit of this run has answered that it keeps the slot out of use. */
  | ({
      at: 'probing';
      heldSinceMs?: number;
      closed?: boolean;
      asks?: boolean;
      drainedBy?: string;
      /** After a turn that brought no word. `waiter`: whose it was; of several at once, that of the first. */
      overdue?: UnheardTurns & { waiter: string };
    } & AskedSlot)
  /** `runId`: the queue's own claim, which it is giving up. */
  | ({ at: 'held'; sinceMs: number; probeAtMs: number; runId?: string } & AskedSlot)
  /** `unheard`: so many waiters have a turn for it. `reserved`: without a turn, for the next ticket of the accumulator whose ticket that is. */
  | ({ at: 'offered'; ticketId: string; untilMs: number; reserved?: true; unheard?: UnheardTurns } & AskedSlot)
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

/** All tickets of a line. */
export interface TicketTable {
  rows: TicketRow[];
  /** What the tickets would take: each capacity, and each list of names, once. */
  lists: Ticket['slots'][];
}

/**
 * A {@link QueueView} as the query shows it, and as the next run gets it: a ticket of named slots says which of the `lists` they are. In a
 * long line, and for the next run, `rows` stand in place of the tickets.
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
  /** Tickets in `view` that may be beyond their bound on the line (`maxWaiting`). */
  inDoubt?: (number | string)[];
}
