import { type Pace, Poller } from './poller';
import type { Pool } from './pool';
import type { PoolView } from './wire';

/** Between two looks at one resource. */
const LOOK_EVERY_MS = 1_000;

/** And for each slot that there is, for a look asks for each: many do not become a load. */
const LOOK_EVERY_MS_PER_SLOT = 20;

/** For what is past: a namespace allows 10 calls a second to visibility, and others need them too. */
const PAST_EVERY_MS = 4_000;
const PAST_APART_MS = 1_000;

/** Between two searches for resources, each some calls to visibility. */
const FIND_EVERY_MS = 10_000;

/** A page that is loaded again finds its pollers running. */
const LINGER_MS = 3_000;

/** All resources, and who wants to know of them. Looks at nothing while nobody does. */
export class Hub {
  private readonly pools = new Map<string, { pool: Pool; poller: Poller }>();
  private readonly listeners = new Set<() => void>();
  private linger: NodeJS.Timeout | undefined;
  private search: NodeJS.Timeout | undefined;

  /** @param find gives more of them: asked now and then */
  constructor(
    pools: readonly Pool[],
    private readonly find: () => Promise<readonly Pool[]> = async () => [],
  ) {
    for (const pool of pools) this.add(pool);
  }

  get views(): PoolView[] {
    return [...this.pools.values()].map(({ poller }) => poller.view);
  }

  pool(resource: string): Pool | undefined {
    return this.pools.get(resource)?.pool;
  }

  /** @param changed called when there are new views @returns what ends it */
  subscribe(changed: () => void): () => void {
    this.listeners.add(changed);
    clearTimeout(this.linger);
    if (this.listeners.size === 1) this.startAll();
    return () => {
      this.listeners.delete(changed);
      if (this.listeners.size > 0) return;
      clearTimeout(this.linger);
      this.linger = setTimeout(() => this.stopAll(), LINGER_MS).unref();
    };
  }

  /** Looks at this resource now, for somebody has just changed it. */
  look(resource: string): void {
    this.pools.get(resource)?.poller.look();
  }

  close(): void {
    clearTimeout(this.linger);
    this.stopAll();
  }

  private add(pool: Pool): Poller {
    const changed = () => {
      for (const listener of this.listeners) listener();
    };
    const poller = new Poller(pool, () => this.pace(), changed);
    this.pools.set(pool.resource, { pool, poller });
    return poller;
  }

  private async searchOn(): Promise<void> {
    const found = await this.find().catch(() => []); // it is tried again, and what is known says what is wrong
    if (this.listeners.size === 0) return;
    for (const pool of found) if (!this.pools.has(pool.resource)) this.add(pool).start(0);
    this.search = setTimeout(() => void this.searchOn(), FIND_EVERY_MS).unref();
  }

  private pace(): Pace {
    const slots = this.views.reduce((sum, view) => sum + view.slots.length, 0);
    return {
      lookEveryMs: Math.max(LOOK_EVERY_MS, LOOK_EVERY_MS_PER_SLOT * slots),
      pastEveryMs: Math.max(PAST_EVERY_MS, PAST_APART_MS * this.pools.size),
    };
  }

  private startAll(): void {
    const { size } = this.pools;
    let index = 0;
    for (const { poller } of this.pools.values()) {
      poller.start((index * LOOK_EVERY_MS) / size);
      index++;
    }
    clearTimeout(this.search);
    void this.searchOn();
  }

  private stopAll(): void {
    clearTimeout(this.search);
    for (const { poller } of this.pools.values()) poller.stop();
  }
}
