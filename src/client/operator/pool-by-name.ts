import { isDeepStrictEqual } from 'node:util';
import type { Client } from '@temporalio/client';
import { InvalidOptionsError } from '../../shared/invalid-options';
import type { QueueView } from '../../shared/queue-view';
import { type Slots, slotNames } from '../../shared/slots';
import { monotonicMs } from '../clock';
import { resolveClientSemaphore } from '../options';
import { SemaphoreClient } from '../semaphore-client';
import { Server } from '../server';
import type { Inspection, Override, PermitInspection } from './inspection';
import { ANSWERS_WITHIN_MS, Inspector } from './inspector';
import type { OverrideOptions, PauseOptions, RevokeOptions } from './operator';
import { listAllHolders } from './visibility';
import { QUERY_MS, WorkerQueries } from './worker-queries';

/** An operator's description of a pool. Without `capacity` and `slots`, the pool's queue is asked. */
export interface PoolOptions {
  taskQueue: string;
  capacity?: number;
  slots?: string[];
}

/** What is in use of the pools of a resource's keys. */
export interface KeysInUse {
  /** Keys of which somebody holds a permit … */
  held: number;
  /** … and these permits. */
  permits: number;
  /** Keys that have a queue: somebody waits for one of their permits, or has until lately. */
  queued: number;
}

/** A pool as far as it could be seen. Without a `capacity`, there may be more slots than those shown. */
export type SeenPool = Omit<Inspection, 'capacity'> & {
  capacity?: number;
  /** Of a resource with a limit per key, where visibility was asked. */
  keys?: KeysInUse;
  /** Why the look has failed: then ignore the other fields. */
  problem?: string;
};

export interface LookOptions {
  /** How many past holds to list; `0` spares a call to visibility. */
  recent: number;
  /** Asks visibility for the held slots while nobody knows how many there are, every 10 s at the most. @default false */
  search?: boolean;
  /** Those of several looks, as `InspectOptions` has them. */
  queries?: WorkerQueries;
}

/** A server allows few calls to visibility, and is seconds late with it. */
const SEARCH_EVERY_MS = 10_000;

/**
 * A pool of which an operator may know only the name. Its queue, while one runs, tells how many slots there are; afterwards, what it
 * said last counts. Until then, a look shows the slots that were seen held, and leaves out `capacity`.
 */
export class PoolByName {
  private sized: SemaphoreClient | undefined;
  private slots: Slots | undefined;
  /** A client for the slots in `asked`, while the pool's size is unknown. */
  private unsized: SemaphoreClient | undefined;
  private readonly asked = new Set<string>();
  private readonly seenHeld = new Set<string>();
  private searchAgainMs = Number.NEGATIVE_INFINITY;

  constructor(
    private readonly client: Client,
    readonly resource: string,
    private readonly options: PoolOptions,
  ) {}

  /** Adds slots that the caller has found held: the next look asks for them. */
  addSlots(slots: readonly string[]): void {
    const before = this.asked.size;
    for (const slot of slots) this.asked.add(slot);
    if (this.asked.size > before) this.unsized = undefined;
  }

  async inspect({ recent, search = false, queries }: LookOptions): Promise<SeenPool> {
    const sized = await this.find(search, queries);
    if (sized) return await sized.inspect({ recent, queries });
    const { capacity: _unknown, ...seen } = await this.openAsked().inspect({ recent, queries });
    for (const { slot, state } of seen.slots) if (state !== 'free') this.seenHeld.add(slot);
    return { ...seen, slots: seen.slots.filter(({ slot }) => this.seenHeld.has(slot)) };
  }

  /** @throws as `SemaphoreClient.revoke` does */
  async revoke(slot: string, options?: RevokeOptions): Promise<PermitInspection> {
    return await openSlot(this.client, this.resource, slot, this.options).revoke(slot, options);
  }

  /** @throws as `SemaphoreClient.resize` does, and InvalidOptionsError when nobody knows how many slots the pool has */
  async resize(capacity: number, options?: OverrideOptions): Promise<Override> {
    return await (await this.open()).resize(capacity, options);
  }

  /** @throws as {@link resize} does */
  async pause(options?: PauseOptions): Promise<Override> {
    return await (await this.open()).pause(options);
  }

  /** @throws as {@link resize} does */
  async resume(options?: Omit<OverrideOptions, 'reason'>): Promise<Override | undefined> {
    return await (await this.open()).resume(options);
  }

  private async search(): Promise<void> {
    if (monotonicMs() < this.searchAgainMs) return;
    const held = await listAllHolders(this.client, this.resource);
    this.searchAgainMs = monotonicMs() + SEARCH_EVERY_MS;
    this.addSlots(held.map(({ slot }) => slot));
  }

  /** A client for the pool with all its slots. @throws InvalidOptionsError when nobody knows how many it has */
  async open(): Promise<SemaphoreClient> {
    const pool = await this.find();
    if (pool) return pool;
    throw new InvalidOptionsError(
      `No queue of "${this.resource}" says how many slots it has: give --capacity or --slots.`,
    );
  }

  /** The pool may have been deployed anew with other slots, so its queue is asked each time. */
  private async find(search = false, given?: WorkerQueries): Promise<SemaphoreClient | undefined> {
    const { client, resource, options } = this;
    const server = new Server(client);
    const queries = given ?? new WorkerQueries(server, this.sized ? QUERY_MS : ANSWERS_WITHIN_MS);
    const told = options.capacity ?? options.slots ?? slotsOf(await new Inspector(server, resource).view(queries));
    if (told !== undefined) this.asked.clear();
    else if (search) await this.search();
    const slots = told ?? (this.isOutgrown() ? undefined : this.slots);
    if (slots === undefined) {
      this.sized = undefined;
      return undefined;
    }
    if (!this.sized || !isDeepStrictEqual(slots, this.slots)) {
      this.slots = slots;
      this.sized = openSlots(client, resource, options.taskQueue, slots);
    }
    return this.sized;
  }

  /** Whether slots were seen held since which the queue's last word did not have: the pool has been deployed anew. */
  private isOutgrown(): boolean {
    if (this.slots === undefined) return false;
    const names = new Set(slotNames(this.slots));
    return [...this.asked].some((slot) => !names.has(slot));
  }

  private openAsked(): SemaphoreClient {
    const slots = [...this.asked].sort((a, b) => a.localeCompare(b, undefined, { numeric: true }));
    const { client, resource, options } = this;
    this.unsized ??= openSlots(client, resource, options.taskQueue, slots.length > 0 ? slots : 1);
    return this.unsized;
  }
}

/** A client for one slot of a pool of any size. */
export function openSlot(
  client: Client,
  resource: string,
  slot: string,
  { taskQueue }: Pick<PoolOptions, 'taskQueue'>,
): SemaphoreClient {
  return openSlots(client, resource, taskQueue, [slot]);
}

/** Checks the options before any call to the server. @throws InvalidOptionsError */
export function checkPool(resource: string, { capacity, slots, taskQueue }: PoolOptions): void {
  const unknown = capacity === undefined && slots === undefined;
  resolveClientSemaphore(resource, { taskQueue, slots, capacity: unknown ? 1 : capacity });
}

function openSlots(client: Client, resource: string, taskQueue: string, slots: Slots): SemaphoreClient {
  return new SemaphoreClient(client, resource, {
    taskQueue,
    ...(typeof slots === 'number' ? { capacity: slots } : { slots }),
  });
}

/** The slots that the waiters, or an earlier operator, have named. When waiters differ, the largest number counts. */
function slotsOf(view: QueueView | undefined): Slots | undefined {
  if (!view) return undefined;
  if (view.override) return view.override.slots;
  const said = view.tickets.map(({ slots }) => slots);
  return said.sort((a, b) => slotNames(b).length - slotNames(a).length)[0];
}
