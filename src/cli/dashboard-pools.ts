import type { Client } from '@temporalio/client';
import { SemaphoreClient } from '../client';
import { checkPool, PoolByName, type PoolOptions, refuse, resourcesInUse } from '../client/operators';
import type { Pool, PoolFinder } from '../dashboard/pool';

export interface NamedResource extends Pick<PoolOptions, 'capacity' | 'slots'> {
  resource: string;
}

/** The pools that `dashboard` shows: those that the operator has named, or else all that are in use. */
export class DashboardPools implements PoolFinder {
  /** The pools that the operator has named. */
  readonly given: Pool[] = [];
  private readonly found = new Map<string, PoolByName>();
  private readonly all: boolean;

  /** @param resources as {@link parseResource} gives them */
  constructor(
    private readonly client: Client,
    resources: readonly NamedResource[],
    private readonly flags: PoolOptions,
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

  /** Finds the pools in use, by two calls to visibility; by none when all pools were named with their slots. */
  async find(): Promise<Pool[]> {
    if (!this.all && this.found.size === 0) return [];
    const inUse: PoolByName[] = [];
    for (const [resource, { slots }] of await resourcesInUse(this.client)) {
      if (!this.all && !this.found.has(resource)) continue;
      const pool = this.pool(resource);
      pool.addSlots(slots);
      inUse.push(pool);
    }
    return inUse;
  }

  forget(resource: string): void {
    this.found.delete(resource);
  }

  private pool(resource: string): PoolByName {
    const pool = this.found.get(resource) ?? new PoolByName(this.client, resource, this.flags);
    this.found.set(resource, pool);
    return pool;
  }
}

/**
 * Reads `name`, `name=3` or `name=a,b,c`. A name may have a `=`, so the last one counts.
 * @throws InvalidOptionsError
 */
export function parseResource(text: string, { taskQueue }: PoolOptions): NamedResource {
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
