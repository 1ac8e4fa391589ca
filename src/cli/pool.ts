import type { Client } from '@temporalio/client';
import type { Command } from 'commander';
import type { Inspection } from '../client/operator/inspection';
import { lenientReader } from '../client/operator/lenient-reader';
import { readQueueView } from '../client/operator/queue-view';
import { listHolders } from '../client/operator/visibility';
import { WorkerQueries } from '../client/operator/worker-queries';
import { resolveClientSemaphore } from '../client/options';
import { SemaphoreClient } from '../client/semaphore-client';
import { Server } from '../client/server';
import { InvalidOptionsError } from '../shared/invalid-options';
import { queueId } from '../shared/permit-id';
import { QUEUE_VIEW } from '../shared/queue-view';
import { type Slots, slotNames } from '../shared/slots';
import { type Output, withOutputFlags, withSlotFlags } from './arguments';
import { type ConnectionFlags, withConnectionFlags } from './connection';

interface TaskQueueFlags {
  taskQueue: string;
}

/** Which pool it is, as far as the flags say. */
export interface SlotFlags extends TaskQueueFlags {
  capacity?: number;
  slots?: string[];
}

export interface PoolFlags extends SlotFlags, ConnectionFlags {
  output: Output;
}

/** How long a queue may take to say with how many slots its pool was deployed. */
const ANSWER_WITHIN_MS = 2_000;

/** The flags of every command that looks at one pool, or acts on it. */
export function withPoolFlags(command: Command): Command {
  withSlotFlags(
    command,
    'how many permits the pool is deployed with (default: what its queue knows)',
    'its named slots instead, separated by commas',
  );
  command.option('--task-queue <name>', "the permit worker's task queue", 'permits');
  return withConnectionFlags(withOutputFlags(command));
}

/** A pool with as many slots as the flags say, or else as its queue knows. @throws InvalidOptionsError when neither does */
export async function openPool(client: Client, resource: string, flags: SlotFlags): Promise<SemaphoreClient> {
  const slots = givenSlots(flags) ?? (await slotsOfQueue(client, resource));
  if (slots !== undefined) return poolOf(client, resource, flags.taskQueue, slots);
  throw new InvalidOptionsError(`Nothing runs that says how many slots "${resource}" has: give --capacity or --slots.`);
}

/** One slot of a pool, however many it has. */
export function openSlot(
  client: Client,
  resource: string,
  slot: string,
  { taskQueue }: TaskQueueFlags,
): SemaphoreClient {
  return poolOf(client, resource, taskQueue, [slot]);
}

/**
 * Looks at a pool as far as it is known. Where neither the flags nor its queue say how many slots it has, those are shown
 * that are held, and `capacity` is left out.
 */
export class PoolView {
  private pool: SemaphoreClient | undefined;

  constructor(
    private readonly client: Client,
    private readonly resource: string,
    private readonly flags: SlotFlags,
  ) {}

  async look(recent: number): Promise<SeenPool> {
    const { client, resource, flags } = this;
    const slots = this.pool ? undefined : (givenSlots(flags) ?? (await slotsOfQueue(client, resource)));
    if (slots !== undefined) this.pool = poolOf(client, resource, flags.taskQueue, slots);
    if (this.pool) return await this.pool.inspect({ recent });
    const held = (await listHolders(client)).filter((it) => it.resource === resource).map(({ slot }) => slot);
    const seen = await poolOf(client, resource, flags.taskQueue, held.length > 0 ? held : 1).inspect({ recent });
    const { capacity: _unknown, ...rest } = seen;
    return { ...rest, slots: seen.slots.filter(({ state }) => state !== 'free') };
  }
}

export type SeenPool = Omit<Inspection, 'capacity'> &
  Partial<Pick<Inspection, 'capacity'>> & {
    /** Why nobody could look at it: then nothing else here means anything. */
    problem?: string;
  };

function poolOf(client: Client, resource: string, taskQueue: string, slots: Slots): SemaphoreClient {
  return new SemaphoreClient(client, resource, {
    taskQueue,
    ...(typeof slots === 'number' ? { capacity: slots } : { slots }),
  });
}

/** Refuses what is wrong, before the server is called. @throws InvalidOptionsError */
export function checkPool(resource: string, { capacity, slots, taskQueue }: SlotFlags): void {
  const unknown = capacity === undefined && slots === undefined;
  resolveClientSemaphore(resource, { taskQueue, slots, capacity: unknown ? 1 : capacity });
}

function givenSlots({ capacity, slots }: SlotFlags): Slots | undefined {
  return capacity ?? slots;
}

/** What those who wait, or the operator before us, said. Where they differ, the most. */
async function slotsOfQueue(client: Client, resource: string): Promise<Slots | undefined> {
  const queries = new WorkerQueries(new Server(client), ANSWER_WITHIN_MS);
  const answer = await queries.ask(lenientReader(client).getHandle(queueId(resource)), QUEUE_VIEW);
  const view = readQueueView(answer);
  if (!view) return undefined;
  if (view.override) return view.override.slots;
  const said = view.tickets.map(({ slots }) => slots);
  return said.sort((a, b) => slotNames(b).length - slotNames(a).length)[0];
}
