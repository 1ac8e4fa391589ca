/**
 * The messages between the dashboard's server and its page: plain JSON, times in epoch milliseconds. Both sides import this
 * module, so it knows neither Node nor a browser.
 */

/** One resource, as the page shows it. It never changes: each look at the resource makes a new one. */
export interface ResourceView {
  resource: string;
  head: ResourceHead;
  slots: SlotView[];
  /** The first waiters of the queue, as of `head.waitersAsOfMs`; `head.waiting` counts all. */
  waiters: WaiterView[];
  /** The holders of each slot over time, oldest first. */
  holds: HoldView[];
  /** What was held, and who waited, in steps of time, oldest first. */
  load: LoadView[];
}

export interface ResourceHead {
  /** `false` until the first look is done: until then, ignore the other fields. */
  ready: boolean;
  /** Absent while it is unknown how many slots there are. */
  capacity?: number;
  held: number;
  /** Absent while the queue has never answered. */
  waiting?: number;
  /** Since when the first of the waiters has waited; absent while none waits. */
  longestSinceMs?: number;
  /** When the queue last reported its waiters; absent while the queue answers. */
  waitersAsOfMs?: number;
  queue: 'none' | 'running' | 'silent' | 'paused';
  /** The command that starts the worker which the queue lacks. */
  remedy?: string;
  /** What was paused on the server (a permit, the queue, waiters), with the consequences. */
  paused?: readonly string[];
  override?: {
    version: number;
    capacity?: number;
    capacityUntilMs?: number;
    before?: { capacity?: number; reason?: string; fileVersion?: number };
    paused: boolean;
    pausedUntilMs?: number;
    reason?: string;
    fileVersion?: number;
  };
  /** What callers take the slots to be, where two of them differ: the most common belief first. */
  disagreement?: readonly { slots: number | string; count: number; by: string }[];
  /** What is to be said of Workflows that are none of ours, under the IDs of permits or of the queue. */
  strangers?: string;
  stats: ResourceStats;
  /** Why the last look failed. */
  problem?: string;
  /** The time of this view, if it is old: there was no look for a while, or the last look failed or takes long. */
  asOfMs?: number;
}

/** Statistics of the last {@link ResourceStats.windowMs}, as far as the server has looked. */
export interface ResourceStats {
  windowMs: number;
  /** Permits granted in the last minute. */
  grantsPerMinute: number;
  /** How long holders waited, to the precision of the looks. Only holders that this server saw come count. */
  waits?: Percentiles;
  /** How long the ended permits were held. */
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
  state: 'free' | 'held' | 'drained' | 'paced';
  permit?: PermitStatus;
}

export interface PermitStatus {
  workflowId: string;
  runId: string;
  holder: PartyView;
  purpose?: string;
  sinceMs: number;
  /** Its Workflow is paused on the server: no lease ends it. */
  paused?: true;
  leaseDeadlineMs?: number;
  /** The look has not asked for the lease. */
  leaseSpared?: true;
  /** A waiter of higher priority has asked for the permit, which ends at this time at the latest. */
  preemptedUntilMs?: number;
  /** The longest time to the deadline that a look has seen: a full lease, or a little less. */
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
  /** Absent while the slot is held. */
  toMs?: number;
  /** Absent until visibility lists the closed Workflow, seconds after the end. */
  outcome?: string;
}

/** What the looks in one step of time have seen. A step without a look is missing. */
export interface LoadView {
  /** When the step begins. */
  atMs: number;
  /** The mean. */
  held: number;
  /** The most; absent while the waiters are unknown. */
  waiting?: number;
  /** Absent while it is unknown how many slots there are. */
  capacity?: number;
}

/** The keys of a resource, as the last search found them: seconds late. */
export interface KeysView {
  count: number;
  /** Keys with a queue come first: a caller waits, or an operator has set something. */
  first: readonly KeyView[];
}

export interface KeyView {
  /** The resource of the key. */
  resource: string;
  held: number;
  isQueued: boolean;
}

/** By the resource that the keys belong to. */
export type KeysByResource = Readonly<Record<string, KeysView>>;

/** The first event on a connection, and again after each reconnection. */
export interface Hello {
  nowMs: number;
  session: Session;
  search: SearchView;
  silence?: SilenceView;
  resources: ResourceView[];
  keys: KeysByResource;
}

/** The search for the resources in use. */
export interface SearchView {
  /** Whether a search has succeeded since a page was opened. */
  done: boolean;
  /** Why the last search has failed. */
  problem?: string;
}

/** Temporal gives the dashboard no answer: not of one resource, but of any. */
export interface SilenceView {
  /** Why the last call has failed. */
  problem: string;
  /** When Temporal last answered; absent when it never has. */
  sinceMs?: number;
}

/** The facts that stay the same while a page is connected. */
export interface Session {
  namespace: string;
  address: string;
  /** The URL of the Temporal Web UI, without a slash at the end. */
  ui?: string;
  readOnly: boolean;
  /** The page sends it with each action. */
  csrfToken: string;
}

/** The changes since the last event on this connection. */
export interface Update {
  nowMs: number;
  search: SearchView;
  /** Absent while Temporal answers. */
  silence?: SilenceView;
  patches: ResourcePatch[];
  /** All resources; present when some have come or gone. */
  resources?: string[];
  /** Present after a search. */
  keys?: KeysByResource;
}

export interface ResourcePatch {
  resource: string;
  head?: ResourceHead;
  slots?: ListPatch<SlotView>;
  waiters?: ListPatch<WaiterView>;
  holds?: ListPatch<HoldView>;
  load?: ListPatch<LoadView>;
}

/** Apply in this order: `gone` leave; each of `put` replaces the item of its key, or joins at the end; `order` arranges all. */
export interface ListPatch<T> {
  gone?: string[];
  put?: T[];
  /** All keys; absent when the order is right without it. */
  order?: string[];
}

/** An action that the page asks for. `ifVersion`: the override's version that the operator saw; 0 for none. */
export type Action =
  | { do: 'revoke'; resource: string; slot: string; runId: string; reason: string }
  | { do: 'resize'; resource: string; capacity: number; ifVersion?: number; reason: string }
  | { do: 'pause'; resource: string; ifVersion?: number; reason: string }
  | { do: 'resume'; resource: string; ifVersion?: number };

/** In the address of the events: the key that the page shows. The server does not look at a key that no page shows. */
export const KEY_PARAMETER = 'key';

export const CSRF_HEADER = 'x-csrf-token';
