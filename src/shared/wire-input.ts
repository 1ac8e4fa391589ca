import { MAX_SLOTS, resolveSlots } from './options';
import { byteLength } from './permit-id';
import type { ClosingNotice, DeclinedNotice, MissedNotice, OverrideInput, Ticket } from './protocol';

// What comes over the wire was written by other versions and other languages, or by hand. One message that a Workflow
// can't digest would fail its task for ever: a malformed ticket would block the queue for everyone, a malformed `watch`
// would keep a slot. The server is as strict about what we send on: a run ID that is none fails the whole task. So each
// Workflow of ours checks what it takes in, and leaves out what is malformed.

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** It is no UTF-8: the SDK's core can't decode a command with it, and ends the whole worker. */
const LONE_SURROGATE = /\p{Cs}/u;

/** The server's own limit. */
const MAX_WORKFLOW_ID_BYTES = 1_000;

/** A Workflow that can be signalled. */
export interface SignalTarget {
  workflowId: string;
  runId?: string;
}

export function isSignalTarget(value: unknown): value is SignalTarget {
  const { workflowId, runId } = fieldsOf(value);
  return isWorkflowId(workflowId) && (runId === undefined || (typeof runId === 'string' && UUID.test(runId)));
}

export function isWorkflowId(value: unknown): value is string {
  return isText(value) && !LONE_SURROGATE.test(value) && byteLength(value) <= MAX_WORKFLOW_ID_BYTES;
}

export function isTicket(resource: string, value: unknown): value is Ticket {
  const { id, waiter, slots, sinceMs } = fieldsOf(value);
  return isText(id) && isSignalTarget(waiter) && Number.isFinite(sinceMs) && areSlots(resource, slots);
}

export function isMissedNotice(resource: string, value: unknown): value is MissedNotice {
  const { ticket, slot } = fieldsOf(value);
  return isTicket(resource, ticket) && isText(slot);
}

export function isDeclinedNotice(value: unknown): value is DeclinedNotice {
  return isText(fieldsOf(value).ticketId);
}

export function isClosingNotice(value: unknown): value is ClosingNotice {
  const { slot, runId } = fieldsOf(value);
  return isText(slot) && isText(runId);
}

export function isOverride(resource: string, value: unknown): value is OverrideInput {
  const { slots, capacity, paused, reason, ifVersion } = fieldsOf(value);
  if (!areSlots(resource, slots) || (capacity === undefined && paused === undefined)) return false;
  const most = typeof slots === 'number' ? MAX_SLOTS : (slots as string[]).length;
  return (
    (capacity === undefined || (isCount(capacity, most) && areSlots(resource, capacity))) &&
    (paused === undefined || typeof paused === 'boolean') &&
    (reason === undefined || typeof reason === 'string') &&
    (ifVersion === undefined || isCount(ifVersion, Number.MAX_SAFE_INTEGER, 0))
  );
}

function isCount(value: unknown, most: number, least = 1): boolean {
  return Number.isInteger(value) && (value as number) >= least && (value as number) <= most;
}

function areSlots(resource: string, slots: unknown): boolean {
  try {
    resolveSlots(resource, typeof slots === 'number' ? { capacity: slots } : { slots: slots as string[] });
    return true;
  } catch {
    return false;
  }
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== '';
}

function fieldsOf(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
}
