/** A pool as its acquirers are set up for it. */
export interface PoolSetup {
  resource: string;
  /** What all acquirers agree on. */
  slots: { capacity: number } | { slots: string[] };
  /** Its signals are dropped, doubled and reordered. */
  flaky: boolean;
  /** A slot is not given again before so many milliseconds have passed since it was taken. Its permits are not taken away either. */
  paceMs?: number;
  /** How many of its permits one key may have. Every acquire then has one of the {@link KEYS}. */
  perKey?: number;
  /** All its acquirers line up before they try a slot. So a slot that the queue forgets stays idle. */
  fair?: true;
}

/** Tenants of a pool with keys. */
export const KEYS = ['ann', 'bob', 'čeněk/ñ'] as const;

/** What an actor's process is started with. */
export interface ActorInput {
  role: 'clients' | 'application' | 'permits';
  /** Names the process, and its next ones after it was killed. */
  name: string;
  seed: string;
  /** Of its own proxy. */
  address: string;
  observerPort: number;
  taskQueue: string;
  /** The bundle of Workflows, for a worker. */
  bundle: string;
  pools: PoolSetup[];
  recheckAfterMs: number;
  /** Of a versioned permit worker, whose deployment has the task queue's name. */
  buildId?: string;
  /** Of clients: how many acquire at once. */
  holders: number;
}

export type Order = 'stop' | 'kill-on-turn';
