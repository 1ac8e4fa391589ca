import type { Client } from '@temporalio/client';
import { SemaphoreClient } from '../client/semaphore-client';
import type { Pool, PoolFinder } from '../dashboard/pool';
import { InvalidOptionsError, refuse } from '../shared/invalid-options';
import { checkPool, openPool, openSlot, type SlotFlags } from './pool';
import { resourcesInUse } from './resources';

export interface NamedResource extends Pick<SlotFlags, 'capacity' | 'slots'> {
  resource: string;
}

/** What `dashboard` shows: the resources that were named, or else all that are in use. */
export class DashboardPools implements PoolFinder {
  /** Those that were named. */
  readonly given: Pool[] = [];
  private readonly found = new Map<string, FoundPool>();
  private readonly all: boolean;

  /** @param resources as {@link parseResource} gives them */
  constructor(
    private readonly client: Client,
    resources: readonly NamedResource[],
    private readonly flags: SlotFlags,
  ) {
    this.all = resources.length === 0;
    for (const { resource, capacity, slots } of resources) {
      const known = capacity !== undefined || slots !== undefined;
      const { taskQueue } = flags;
      this.given.push(
        known ? new SemaphoreClient(client, resource, { capacity, slots, taskQueue }) : this.pool(resource),
      );
    }
  }

  /** Looks for those that are in use, where not all is known already: two calls to visibility. */
  async find(): Promise<Pool[]> {
    if (!this.all && this.found.size === 0) return [];
    const inUse: FoundPool[] = [];
    for (const [resource, slots] of await resourcesInUse(this.client)) {
      if (!this.all && !this.found.has(resource)) continue;
      const pool = this.pool(resource);
      pool.saw(slots);
      inUse.push(pool);
    }
    return inUse;
  }

  forget(resource: string): void {
    this.found.delete(resource);
  }

  private pool(resource: string): FoundPool {
    const pool = this.found.get(resource) ?? new FoundPool(this.client, resource, this.flags);
    this.found.set(resource, pool);
    return pool;
  }
}

/** A pool that nobody told us how many slots it has. Until its queue does, those are shown which were seen held. */
class FoundPool implements Pool {
  private readonly seen = new Set<string>();
  private pool: SemaphoreClient | undefined;
  private known = false;

  constructor(
    private readonly client: Client,
    readonly resource: string,
    private readonly flags: SlotFlags,
  ) {}

  saw(slots: readonly string[]): void {
    const before = this.seen.size;
    for (const slot of slots) this.seen.add(slot);
    if (!this.known && this.seen.size > before) this.pool = undefined;
  }

  async inspect(options: { recent: number }): ReturnType<Pool['inspect']> {
    if (!this.known) await this.getToKnow();
    this.pool ??= new SemaphoreClient(this.client, this.resource, this.seenSlots());
    const inspection = await this.pool.inspect(options);
    if (this.known) return inspection;
    const slots = inspection.slots.filter(({ slot }) => this.seen.has(slot));
    return { ...inspection, slots, capacity: undefined };
  }

  async revoke(slot: string, options: Parameters<Pool['revoke']>[1]): Promise<void> {
    await openSlot(this.client, this.resource, slot, this.flags).revoke(slot, options);
  }

  async resize(...args: Parameters<Pool['resize']>): Promise<void> {
    await (await this.open()).resize(...args);
  }

  async pause(...args: Parameters<Pool['pause']>): Promise<void> {
    await (await this.open()).pause(...args);
  }

  async resume(...args: Parameters<Pool['resume']>): Promise<void> {
    await (await this.open()).resume(...args);
  }

  private async getToKnow(): Promise<void> {
    try {
      this.pool = await this.open();
      this.known = true;
    } catch (error) {
      if (!(error instanceof InvalidOptionsError)) throw error;
    }
  }

  private open(): Promise<SemaphoreClient> {
    return openPool(this.client, this.resource, this.flags);
  }

  private seenSlots() {
    const { taskQueue } = this.flags;
    const slots = [...this.seen].sort((a, b) => a.localeCompare(b, undefined, { numeric: true }));
    return slots.length > 0 ? { taskQueue, slots } : { taskQueue, capacity: 1 };
  }
}

/**
 * Reads `name`, `name=3` or `name=a,b,c`. A name may have a `=`, so the last one counts.
 * @throws InvalidOptionsError
 */
export function parseResource(text: string, { taskQueue }: SlotFlags): NamedResource {
  const at = text.lastIndexOf('=');
  const resource = at < 0 ? text : text.slice(0, at);
  const value = text.slice(at + 1);
  if (resource === '' || value === '') {
    refuse('resource', '<name>, <name>=<capacity> or <name>=<slot>,<slot>…', text);
  }
  const isCapacity = at >= 0 && /^\d+$/.test(value);
  const named = {
    resource,
    capacity: isCapacity ? Number(value) : undefined,
    slots: at < 0 || isCapacity ? undefined : value.split(','),
  };
  checkPool(resource, { ...named, taskQueue });
  return named;
}
