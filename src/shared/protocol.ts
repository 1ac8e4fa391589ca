/**
 * The wire protocol, version 1: the names and payloads that cross between Workflows, clients and other languages. Those of single
 * features stand in the `*-protocol` files beside it, and IDs in `permit-id` and `key-pool`; nowhere else. Payloads are JSON objects to which optional fields are only ever added; durations are
 * integer milliseconds in names that end in `Ms`.
 */

import type { SlotsMemo } from './agreement';
import type { PaceMemo } from './pace-protocol';
import type { PoolMemo, PoolTicket } from './pool-protocol';
import type { PreemptibleRef, PreemptingTicket, PreemptionMemo, PreemptionQuestion } from './preemption-protocol';

/** Workflow types. */
export const PERMIT_WORKFLOW = 'permitSlotWorkflow';
export const QUEUE_WORKFLOW = 'waitQueueWorkflow';
export const WAITER_WORKFLOW = 'awaitTurnWorkflow';

/** Signals that a permit takes. */
export const RENEW = 'renew';
export const RELEASE = 'release';
export const REVOKE = 'revoke';
export const WATCH = 'watch';

/** Signals that a wait queue takes. */
export const ENQUEUE = 'enqueue';
export const DECLINED = 'declined';
export const MISSED = 'missed';
export const CLOSING = 'closing';

/** Signals that go to a user's own Workflow, and so carry a prefix. */
export const REVOKED = 'permit-revoked';
export const TURN = 'permit-turn';

/** The holder of a permit: a Workflow, or a client outside with its identity. */
export interface Holder {
  /** The holding Workflow; absent for a holder outside Workflows. */
  workflowId?: string;
  runId?: string;
  workflowType?: string;
  /** A holder outside Workflows: its client's identity, by default `pid@host`. */
  identity?: string;
}

/** A permit's memo. Anyone can read the slot's holder and its purpose there. */
export interface PermitMemo extends PoolMemo, SlotsMemo, PaceMemo, PreemptionMemo {
  leaseMs: number;
  holder: Holder;
  purpose?: string;
  /** A client draws it anew for each claim, to know its own permit again when the answer gets lost on the way. */
  claimId?: string;
  /** The revoker's reason. The permit sets it before it ends as revoked. */
  revokedBecause?: string;
}

/** A permit's argument. */
export interface PermitInput extends PermitMemo {
  /** The queue that the permit tells when it closes, as if it had sent `watch`. A waiter sets it when it claims on a turn. */
  watchedBy?: string;
}

/** How a permit ended: its Workflow's result. */
export type PermitOutcome = 'released' | 'lease-expired' | 'revoked' | 'preempted';

/** `renew`, to a permit: with another lease than its own, for this renewal. */
export type RenewInput = Partial<Pick<PermitMemo, 'leaseMs'>>;

/** `revoke`, to a permit: an operator takes it away. */
export interface RevokeInput {
  reason?: string;
}

/** `permit-revoked`, from a permit to the Workflow that holds it. Its result, `"revoked"`, has no room for a reason. */
export interface RevokedNotice {
  workflowId: string;
  runId: string;
  reason?: string;
}

/** `watch`, to a permit: tell this queue when you close. Delivered means held; "not found" means free. */
export interface WatchInput extends PreemptionQuestion {
  queueId: string;
}

/** `closing`, from a watched permit to the queue: this slot is about to be free. */
export interface ClosingNotice {
  slot: string;
  runId: string;
}

/** One acquirer's place in the queue. */
export interface Ticket extends PoolTicket, PreemptingTicket {
  /**
   * Makes `enqueue` idempotent: a ticket may be sent any number of times, and counts once. The last one sent names the
   * waiter, so that a place can pass to the next waiter of the same acquirer.
   */
  id: string;
  /** The Workflow that gets the `permit-turn`. */
  waiter: { workflowId: string; runId: string };
  /** The slots it would take: a capacity (slots `"0"` to `"N-1"`), or names. */
  slots: number | string[];
  /** Asks for a sign of life, a turn with `waiting`. Set when the ticket is sent again after a silence. */
  answer?: boolean;
  /** Takes no place when so many wait already: the answer is a turn without a slot. */
  maxWaiting?: number;
  /** The identity of the client that waits through it, for showing. */
  identity?: string;
  /** When its acquire began, in epoch milliseconds: its place among equals, also in a queue that had to start anew. */
  sinceMs: number;
  /** Temporal's own priority: 1 is served first, 3 is the default; then weighted fairness between keys. */
  priorityKey?: number;
  fairnessKey?: string;
  fairnessWeight?: number;
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
  /** No turn yet, but an answer: the queue is alive and has your ticket. */
  waiting?: boolean;
  /** With a slot above the ticket's own count: the capacity that an operator has set, which is why it is offered. */
  capacity?: number;
}

/** `missed`, from a waiter whose slot somebody else took first: it keeps its place. */
export interface MissedNotice {
  ticket: Ticket;
  slot: string;
}

/** `declined`, from a waiter that waits no longer (served, timed out or cancelled). `slot`: the turn that it passes on. */
export interface DeclinedNotice {
  ticketId: string;
  slot?: string;
  /** The run of the waiter that leaves. The queue ignores it when the ticket belongs to another one by now. */
  runId?: string;
}

/** Names one permit, so that somebody else can take it over: plain JSON, fit for an argument or an environment. */
export interface PermitRef extends Pick<PaceMemo, 'paceMs'>, PreemptibleRef {
  resource: string;
  slot: string;
  workflowId: string;
  /** It orders the permits of one slot, and is the last part of the fencing token. */
  runId: string;
  /** How long it may go unrenewed. */
  leaseMs: number;
}
