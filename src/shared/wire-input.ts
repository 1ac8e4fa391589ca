import { MAX_DURATION_MS } from './check';
import { type PermitLoss, readLoss } from './loss';
import { resolveSlots } from './options';
import { isResource, isRunId, MAX_ID_BYTES, queueId, resourceOfQueue } from './permit-id';
import { isFairnessKey } from './priority';
import type {
  ClosingNotice,
  DeclinedNotice,
  Holder,
  InheritNotice,
  MissedNotice,
  OverrideInput,
  PoolShare,
  PreemptInput,
  PreemptibleNotice,
  PreemptionTerms,
  PriorityQuestion,
  Ticket,
  Turn,
} from './protocol';
import { MAX_REASON_LENGTH } from './protocol';
import { MAX_SLOTS, readSlotsMark } from './slots';
import { fieldsOf, isCount, isNumber, MAX_TIME_MS } from './untyped';
import { byteLength } from './utf8';

// Other versions, other languages or people write the messages on the wire. One message that a Workflow can't handle would
// fail its task indefinitely: a malformed ticket would block the queue for all waiters, a malformed `watch` would keep a slot. The
// server is as strict with commands: a malformed run ID fails the whole task. So each of our Workflows checks its input,
// leaves out what is malformed, and keeps only the fields that it knows.

/** Half a surrogate pair has no form in UTF-8. The SDK's core can't decode a command that contains one, and ends the whole worker. */
const LONE_SURROGATE = /\p{Cs}/u;

/** The server's own limit. */
const MAX_WORKFLOW_ID_BYTES = 1_000;

const MAX_TICKET_ID_LENGTH = 100;
const MAX_TEXT_LENGTH = 1_000;
/** The most other resources from which a ticket inherits. */
const MAX_INHERITED = 20;
/** A Workflow to signal. */
export interface SignalTarget {
  workflowId: string;
  runId?: string;
}

export function isSignalTarget(value: unknown): value is SignalTarget {
  const { workflowId, runId } = fieldsOf(value);
  return isWorkflowId(workflowId) && (runId === undefined || isRunId(runId));
}

function isWorkflowId(value: unknown): value is string {
  return isText(value) && !LONE_SURROGATE.test(value) && byteLength(value) <= MAX_WORKFLOW_ID_BYTES;
}

/** The ticket in `value`, without unknown fields; `undefined` when it is malformed. */
export function readTicket(resource: string, value: unknown): Ticket | undefined {
  if (!isTicket(resource, value)) return undefined;
  const { id, slots, answer, identity, sinceMs, priorityKey, fairnessKey, fairnessWeight } = value;
  const { pool, maxWaiting, whenFull, preempt, permits, kept, inherits, givesWay } = value;
  const { workflowId, runId } = value.waiter;
  return {
    id,
    waiter: { workflowId, runId },
    slots,
    answer: answer === true || undefined,
    identity: identity ?? undefined,
    sinceMs,
    priorityKey: priorityKey || undefined,
    fairnessKey: fairnessKey || undefined,
    fairnessWeight: fairnessWeight || undefined,
    pool: readPoolShare(pool),
    maxWaiting: maxWaiting || undefined,
    whenFull: whenFull === 'drop-oldest' ? whenFull : undefined,
    preempt: preempt === true || undefined,
    permits: isCount(permits, MAX_SLOTS) ? permits : undefined,
    kept: isCount(kept, MAX_SLOTS, 0) ? kept : undefined,
    inherits: readResources(inherits),
    givesWay: givesWay === true || undefined,
  } satisfies Record<keyof Ticket, unknown>; // a field that is forgotten here would be lost silently
}

function isTicket(resource: string, value: unknown): value is Ticket {
  const { id, waiter, slots, sinceMs, identity, priorityKey, fairnessKey, fairnessWeight, maxWaiting } =
    fieldsOf(value);
  return (
    isText(id, MAX_TICKET_ID_LENGTH) &&
    isSignalTarget(waiter) &&
    isNumber(sinceMs, 0, MAX_TIME_MS) &&
    areSlots(resource, slots) &&
    isAbsentOr(identity, (it) => typeof it === 'string' && it.length <= MAX_TEXT_LENGTH) &&
    isAbsentOr(priorityKey, (it) => isCount(it, Number.MAX_SAFE_INTEGER, 0)) &&
    isAbsentOr(fairnessKey, isFairnessKey) &&
    isAbsentOr(maxWaiting, (it) => isCount(it, Number.MAX_SAFE_INTEGER, 0)) &&
    isAbsentOr(fairnessWeight, (it) => isNumber(it, 0, Number.MAX_VALUE))
  );
}

/** Reads a pool's share. A malformed share is left out: the ticket then counts as that of an acquirer of one permit. */
function readPoolShare(value: unknown): PoolShare | undefined {
  const { id, nth } = fieldsOf(value);
  return isText(id, MAX_TICKET_ID_LENGTH) && isCount(nth, MAX_SLOTS) ? { id, nth: nth as number } : undefined;
}

/** The resources of which a caller keeps a permit: at most `MAX_INHERITED`. A malformed list is left out. */
function readResources(value: unknown): string[] | undefined {
  if (!Array.isArray(value)) return undefined;
  const resources = value.slice(0, MAX_INHERITED).filter(isResource);
  return resources.length > 0 ? resources : undefined;
}

/** The highest priority of the waiters for a resource, as its queue reports it; `undefined` if it is malformed. */
export function readInherit(value: unknown): InheritNotice | undefined {
  const { resource, priorityKey } = fieldsOf(value);
  if (!isResource(resource) || !isCount(priorityKey, Number.MAX_SAFE_INTEGER)) return undefined;
  return { resource, priorityKey: priorityKey as number };
}

/** The resource whose queue asks for the highest priority; `undefined` if it is malformed. */
export function readPriorityQuestion(value: unknown): PriorityQuestion | undefined {
  const { resource } = fieldsOf(value);
  return isResource(resource) ? { resource } : undefined;
}

/** The holder in `value`: those of its fields that are strings. `undefined` if none is. */
export function readHolder(value: unknown): Holder | undefined {
  const { workflowId, runId, workflowType, identity } = fieldsOf(value);
  const holder: Holder = {};
  if (isWorkflowId(workflowId)) holder.workflowId = workflowId;
  if (isRunId(runId)) holder.runId = runId;
  if (isText(workflowType, MAX_TEXT_LENGTH)) holder.workflowType = workflowType;
  if (isText(identity, MAX_TEXT_LENGTH)) holder.identity = identity;
  return Object.keys(holder).length > 0 ? holder : undefined;
}

/** The reason in `value`, cut to the length that a memo can take. */
export function readReason(value: unknown): string | undefined {
  const { reason } = fieldsOf(value);
  return isText(reason, Number.POSITIVE_INFINITY) ? reason.slice(0, MAX_REASON_LENGTH) : undefined;
}

/** A permit's notice to its holder that it ends. Without a `runId` if the notice is malformed. */
export function readEnd(value: unknown): { runId?: string; reason?: string; outcome: PermitLoss } {
  const { runId, outcome } = fieldsOf(value);
  return { runId: isRunId(runId) ? runId : undefined, reason: readReason(value), outcome: readLoss(outcome) };
}

/** The lease that a renewal asks for, if any. */
export function readLeaseMs(value: unknown): number | undefined {
  const { leaseMs } = fieldsOf(value);
  return isNumber(leaseMs, 1, MAX_DURATION_MS) ? (leaseMs as number) : undefined;
}

export function readMissed(resource: string, value: unknown): MissedNotice | undefined {
  const { ticket: sent, slot } = fieldsOf(value);
  const ticket = readTicket(resource, sent);
  return ticket && isSlotText(slot) ? { ticket, slot } : undefined;
}

export function readDeclined(value: unknown): DeclinedNotice | undefined {
  const { ticketId, runId } = fieldsOf(value);
  if (!isText(ticketId, MAX_TICKET_ID_LENGTH)) return undefined;
  return isRunId(runId) ? { ticketId, runId } : { ticketId };
}

/** The answer of a permit whose holder may have to give way; `undefined` if it is malformed. */
export function readPreemptible(value: unknown): PreemptibleNotice | undefined {
  const { slot, runId, givesWay } = fieldsOf(value);
  const terms = readTerms(value);
  if (!terms || !isSlotText(slot) || !isRunId(runId)) return undefined;
  return { slot, runId, ...terms, ...(givesWay === true && { givesWay }) };
}

/** The terms on which a holder gives way; `undefined` if they are malformed. */
export function readTerms(value: unknown): PreemptionTerms | undefined {
  const { graceMs, priorityKey } = fieldsOf(value);
  if (!isNumber(graceMs, 1, MAX_DURATION_MS) || !isCount(priorityKey, Number.MAX_SAFE_INTEGER)) return undefined;
  return { graceMs: graceMs as number, priorityKey: priorityKey as number };
}

/** The priority of the waiter that asks a permit to give way. */
export function readPreempt(value: unknown): PreemptInput | undefined {
  const { priorityKey } = fieldsOf(value);
  return isCount(priorityKey, Number.MAX_SAFE_INTEGER) ? { priorityKey: priorityKey as number } : undefined;
}

export function readClosing(value: unknown): ClosingNotice | undefined {
  const { slot, runId, releasedBy } = fieldsOf(value);
  if (!isSlotText(slot) || !isRunId(runId)) return undefined;
  return { slot, runId, ...(isText(releasedBy) && { releasedBy }) };
}

/**
 * The turn in `value`; `undefined` if it is no turn, or comes from no queue. A turn grants nothing, but a waiter acts on it: it
 * starts a Workflow whose ID contains the turn's slot, and signals the Workflow whose ID is the turn's `queueId`.
 */
export function readTurn(value: unknown): Turn | undefined {
  const { queueId: from, ticketId, slot, waiting, giveWay, full, superseded, capacity, others } = fieldsOf(value);
  if (!isWorkflowId(from) || queueId(resourceOfQueue(from)) !== from) return undefined;
  if (!isText(ticketId, MAX_TICKET_ID_LENGTH) || !(slot === undefined || isSlotText(slot))) return undefined;
  const turn: Turn = { queueId: from, ticketId };
  if (slot !== undefined) turn.slot = slot;
  if (waiting === true) turn.waiting = true;
  if (giveWay === true) turn.giveWay = true;
  if (full === true) turn.full = true;
  if (superseded === true) turn.superseded = true;
  if (Number.isInteger(capacity)) turn.capacity = capacity as number;
  const mark = readSlotsMark(others);
  if (mark !== undefined) turn.others = mark;
  return turn;
}

export function isOverride(resource: string, value: unknown): value is OverrideInput {
  const { slots, capacity, capacityUntilMs, paused, pauseUntilMs, reason, fileVersion, ifVersion } = fieldsOf(value);
  const isPauseWithEnd = pauseUntilMs !== undefined;
  if (!areSlots(resource, slots) || isPauseWithEnd === (capacity !== undefined || paused !== undefined)) return false;
  const most = typeof slots === 'number' ? MAX_SLOTS : (slots as string[]).length;
  const isAlsoPause = capacity === undefined || paused !== undefined; // each has an end of its own
  return (
    (capacity === undefined || (isCount(capacity, most) && areSlots(resource, capacity))) &&
    (capacityUntilMs === undefined || (isCount(capacityUntilMs, MAX_TIME_MS, 0) && !isAlsoPause)) &&
    (paused === undefined || typeof paused === 'boolean') &&
    (!isPauseWithEnd || isCount(pauseUntilMs, MAX_TIME_MS, 0)) &&
    isAbsentOr(reason, (it) => typeof it === 'string' && it.length <= MAX_REASON_LENGTH) &&
    (fileVersion === undefined || isCount(fileVersion, Number.MAX_SAFE_INTEGER)) &&
    (ifVersion === undefined || isCount(ifVersion, Number.MAX_SAFE_INTEGER, 0))
  );
}

export function areSlots(resource: string, slots: unknown): boolean {
  // The longest slot number fits into every ID into which the resource fits.
  if (typeof slots === 'number') return isCount(slots, MAX_SLOTS);
  try {
    resolveSlots(resource, { slots: slots as string[] });
    return true;
  } catch {
    return false;
  }
}

function isText(value: unknown, maxLength = MAX_WORKFLOW_ID_BYTES): value is string {
  return typeof value === 'string' && value !== '' && value.length <= maxLength;
}

/** Whether it may be the name of a slot. A waiter sends it back as it came, so no Workflow takes a longer one. */
export function isSlotText(value: unknown): value is string {
  return isText(value, MAX_ID_BYTES);
}

/** Other languages write an absent field as `null`. */
function isAbsentOr(value: unknown, is: (value: unknown) => boolean): boolean {
  return value === undefined || value === null || is(value);
}
