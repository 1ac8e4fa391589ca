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
  overrides: OverrideCall[];
  outages: Outage[];
  faults: FaultEvent[];
  /** By the server's histories. */
  permits: PermitRun[];
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
  /** By a permit pool, whose calls have one token after the other. */
  pooled?: boolean;
  /** Its caller has set a time limit, or is to cancel it: only then does it end so as its caller asked. */
  mayTimeOut?: boolean;
  mayBeCancelled?: boolean;
  /** When it was known to have the permit, or none; absent while it waits. */
  settledMs?: number;
  outcome?: Outcome;
  error?: string;
}

/** The work under a permit, as the observer saw it: it begins before the first write and ends before the release. */
export interface Body {
  acquire: string;
  resource: string;
  slot: string;
  runId: string;
  beganMs: number;
  /** Absent when its holder was killed: then the permit's end is the end. */
  endedMs?: number;
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

/** An operator's order. Until it is answered, it may or may not be in effect; one that failed may be, too. */
export interface OverrideCall {
  resource: string;
  sentMs: number;
  answeredMs?: number;
  /** Absent: back to what is deployed, or only a pause or resume. */
  capacity?: number;
}

/** Something that was down: an actor, or (`*`) the server. */
export interface Outage {
  scope: string;
  fromMs: number;
  toMs: number;
}

export interface FaultEvent {
  kind: string;
  atMs: number;
  healedMs?: number;
  /** What was hit. */
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
  /** `revoked` when somebody revoked it; else what it ended with, absent while it runs, and where somebody terminated it. */
  outcome?: string;
}
