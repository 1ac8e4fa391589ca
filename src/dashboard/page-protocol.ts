/**
 * What goes from the dashboard's server to its page: plain JSON, times in epoch milliseconds. Both sides import it, so it
 * knows neither Node nor a browser.
 */

/** What is to be seen of one resource. Never changed: each look at the resource makes a new one. */
export interface PoolView {
  resource: string;
  head: PoolHead;
  slots: SlotView[];
  /** The first in line, as of `head.waitersAsOfMs`; `head.waiting` counts all. */
  waiters: WaiterView[];
  /** The holders of each slot over time, oldest first. */
  holds: HoldView[];
}

export interface PoolHead {
  /** Until the first look is done, nothing else here means anything. */
  ready: boolean;
  /** Absent when nobody knows how many slots there are besides those that were seen. */
  capacity?: number;
  held: number;
  /** Absent when nobody knows, and nobody did before. */
  waiting?: number;
  /** When `waiting` and the waiters were last known, if that is not now: the queue is silent. */
  waitersAsOfMs?: number;
  queue: 'none' | 'running' | 'silent';
  override?: { version: number; capacity?: number; paused: boolean; reason?: string };
  stats: PoolStats;
  /** Why the last look failed. */
  problem?: string;
  /** When all of this was seen, if that is not now: nobody has looked for a while, or the last look failed or takes long. */
  asOfMs?: number;
}

/** Of the last {@link PoolStats.windowMs}, as far as the server has seen them. */
export interface PoolStats {
  windowMs: number;
  /** Permits granted in the last minute. */
  grantsPerMinute: number;
  /** How long those waited whom the server saw waiting or come: in steps of its looks. */
  waits?: Percentiles;
  /** How long permits were held which have ended. */
  holds?: Percentiles;
}

export interface Percentiles {
  count: number;
  p50Ms: number;
  p95Ms: number;
  maxMs: number;
}

/** A holder or waiter: a Workflow, or a client known by its identity. */
export interface PartyView {
  name: string;
  workflowType?: string;
  /** The Workflow behind it, for a link; absent for clients. */
  workflowId?: string;
  runId?: string;
}

export interface SlotView {
  slot: string;
  state: 'free' | 'held' | 'drained';
  permit?: PermitStatus;
}

export interface PermitStatus {
  workflowId: string;
  runId: string;
  holder: PartyView;
  purpose?: string;
  sinceMs: number;
  leaseDeadlineMs?: number;
  /** The longest time to the deadline that was seen: what a full lease is, or a little less. */
  leaseSpanMs?: number;
}

export interface WaiterView {
  ticketId: string;
  waiter: PartyView;
  priorityKey: number;
  fairnessKey?: string;
  sinceMs: number;
  turn?: string;
}

export interface HoldView {
  runId: string;
  slot: string;
  holder: PartyView;
  purpose?: string;
  /** The wait queue holds it, because an operator took the slot out of use. */
  drained?: true;
  fromMs: number;
  /** Absent while it is held. */
  toMs?: number;
  /** Absent until the server's list of closed Workflows tells, seconds after the end. */
  outcome?: string;
}

/** The first event on a connection, and again after each reconnection. */
export interface Hello {
  nowMs: number;
  session: Session;
  pools: PoolView[];
}

/** What does not change while a page is connected. */
export interface Session {
  namespace: string;
  address: string;
  /** Where the Temporal Web UI is, without a slash at the end. */
  ui?: string;
  readOnly: boolean;
  /** To be sent with everything that changes something. */
  csrfToken: string;
}

/** What has changed since the last event on this connection. */
export interface Update {
  nowMs: number;
  patches: PoolPatch[];
  /** When resources have come or gone: all that there are. */
  resources?: string[];
}

export interface PoolPatch {
  resource: string;
  head?: PoolHead;
  slots?: ListPatch<SlotView>;
  waiters?: ListPatch<WaiterView>;
  holds?: ListPatch<HoldView>;
}

/** First `gone` leave, then `put` replace the item of the same key or are added at the end, then `order` arranges them. */
export interface ListPatch<T> {
  gone?: string[];
  put?: T[];
  /** All keys; only when the order would be wrong without. */
  order?: string[];
}

/** What the page asks for. `ifVersion`: of the override as the operator saw it; 0 for none. */
export type Action =
  | { do: 'revoke'; resource: string; slot: string; runId: string; reason: string }
  | { do: 'resize'; resource: string; capacity: number; ifVersion?: number; reason: string }
  | { do: 'pause'; resource: string; ifVersion?: number; reason: string }
  | { do: 'resume'; resource: string; ifVersion?: number };

export const CSRF_HEADER = 'x-csrf-token';
