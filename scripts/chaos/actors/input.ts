/** A pool as its acquirers are set up for it. */
export interface PoolSetup {
  resource: string;
  /** What all acquirers agree on. */
  slots: { capacity: number } | { slots: string[] };
  /** Its signals are dropped, doubled and reordered. */
  flaky: boolean;
}

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
  /** Of clients: how many acquire at once. */
  holders: number;
}

export type Order = 'stop' | 'kill-on-turn';
