import type { Slots } from '@/shared/slots';

/**
 * What is written down of a chaos run, and all that its verdict rests on. Times are epoch milliseconds of one clock: that of the
 * machine, which the observer and the server read alike. (Clock jumps reach the actors only, whose clocks nobody asks.)
 */
export interface ChaosRecord {
  pools: Pool[];
  /** The actors of which one must be up for anybody to be served. */
  permitWorkers: string[];
  acquires: Acquire[];
  bodies: Body[];
  writes: Write[];
  orders: Order[];
  outages: Outage[];
  /** When the version of a permit worker was not the current one: the server gave it nothing to do, and all to the other. */
  notCurrent: Outage[];
  faults: FaultEvent[];
  deaths: Death[];
  /** By the server's histories. */
  permits: PermitRun[];
  pauses: WorkflowPause[];
  /** Turns that the queues gave out of order. */
  disorder: string[];
  /** How many turns that was checked on. */
  turns: number;
  replayed: number;
  replayFailures: string[];
  /** Permits that still ran when all acquirers were gone and the longest lease was over. */
  leftovers: string[];
}

export interface Pool {
  resource: string;
  /** As deployed. */
  slots: Slots;
  paceMs?: number;
  /** Its signals are dropped, doubled and reordered, which no server does: a holder may lose its permit by that. */
  flaky?: boolean;
  /** How many of its permits one key may have. */
  perKey?: number;
}

export type Outcome = 'granted' | 'timeout' | 'full' | 'cancelled' | 'unavailable' | 'killed' | 'failed';

/** One acquire, from when its caller asked. */
export interface Acquire {
  id: string;
  resource: string;
  /** The process that it lives in; its outages are this acquire's. */
  actor: string;
  askedMs: number;
  /** The acquires of one set have this in common. They wait one after the other, so a free slot of one says nothing: L2 leaves them out. */
  set?: string;
  /** Of a pool with a limit for each key. What is free may be for another key: L2 leaves it out. */
  key?: string;
  /** By a permit pool, whose calls have one token after the other. */
  pooled?: boolean;
  /** By a permit pool that is never idle, for callers whom nobody need let pass: it gives way to all others. */
  givesWay?: boolean;
  /** Its caller has set a time limit, or is to cancel it: only then does it end so as its caller asked. */
  mayTimeOut?: boolean;
  mayBeCancelled?: boolean;
  /** When it was known to have the permit, or none; absent while it waits. */
  settledMs?: number;
  outcome?: Outcome;
  error?: string;
}

/** The work under a permit, as the observer saw it: it begins before the first write and ends before the release. Nothing cuts it. */
export interface Body {
  acquire: string;
  resource: string;
  slot: string;
  runId: string;
  beganMs: number;
  /** When it stopped, or its process died; absent while it works. */
  endedMs?: number;
  /** Its process died, and gave nothing back. */
  died?: boolean;
}

/** A write at the protected resource. */
export interface Write {
  atMs: number;
  resource: string;
  slot: string;
  runId: string;
  /** What the guard said. */
  admitted: boolean;
}

/** An operator's order. Between the two it takes effect; one that was not answered may have taken effect, or not. */
export interface Order {
  /** To terminate the queue is one too: what was set is forgotten. */
  kind: 'resize' | 'pause' | 'resume' | 'revoke' | 'terminate-queue';
  resource: string;
  sentMs: number;
  answeredMs?: number;
  /** Of a `resize`. */
  capacity?: number;
  /** Of a `pause` that ends by itself. */
  untilMs?: number;
  /** Of a `revoke`; the run is what the answer named. */
  slot?: string;
  runId?: string;
}

/** Something that was down: an actor, or (`*`) the server. */
export interface Outage {
  scope: string;
  fromMs: number;
  toMs: number;
}

/** The server's own pause of a Workflow, by whose history it ended at the latest with that run. */
export interface WorkflowPause {
  workflowId: string;
  runId: string;
  fromMs: number;
  toMs: number;
}

/** A process that ended, and nobody had wanted that. */
export interface Death {
  actor: string;
  how: string;
  atMs: number;
}

export interface FaultEvent {
  kind: string;
  atMs: number;
  healedMs?: number;
  /** What was hit: an actor, an acquire (which for a Workflow is its ID), a permit's ID, or a resource. */
  target?: string;
  /** Why it could not be done. */
  failed?: string;
}

export interface PermitRun {
  resource: string;
  slot: string;
  runId: string;
  startedMs: number;
  /** Infinity while it runs. */
  closedMs: number;
  /** The queue's own claim, by which a slot is kept out of use. */
  drained: boolean;
  /** Its holder claimed it on a turn that the queue gave. */
  byTurn?: boolean;
  /** The Workflow, or the client's identity, that claimed it. */
  holder?: string;
  /** When a waiter that outranks its holder first asked it to give way, and how long it may take. */
  askedMs?: number;
  graceMs?: number;
  /** It has asked its holder to give way. */
  gaveWay?: true;
  /** `revoked` when somebody revoked it; else what it ended with, absent while it runs, and where somebody terminated it. */
  outcome?: string;
  /** When its last timer rang: of a permit that ended by its lease, the end of that. The permit workers may be late with the rest. */
  rangMs?: number;
}
