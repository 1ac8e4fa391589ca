import { type Applied, applyChanges, type ToChange } from '@/limits/apply';
import { compare } from '@/limits/compare';
import { lookAtLimits } from '@/limits/in-force';
import { poolOf } from '@/limits/limit';
import { readLimitsFile } from '@/limits/limits-file';
import { keyResource } from '@/shared/key-names';
import { KEYS, type PoolSetup } from './actors/input';
import type { Order } from './record';
import type { World } from './world';

// Operators' commands, each as the record has it.

/** How long an operator waits for an answer. */
export const ANSWER = '10s';

/**
 * Pools that operators steer. Not the flaky ones: a queue that gives a drained slot back by a signal which the server took, and
 * which was lost all the same, would keep the slot. No server does that.
 */
export function steered({ options }: World): PoolSetup[] {
  return options.pools.filter(({ flaky }) => !flaky);
}

/** How many slots a pool is deployed with. */
export function deployedCount({ slots }: PoolSetup): number {
  return 'capacity' in slots ? slots.capacity : slots.slots.length;
}

/** Puts every pool, and each key, back to what it is deployed with. It also frees what a terminated queue has left drained. */
export async function restoreCapacity(world: World): Promise<void> {
  for (const pool of steered(world).flatMap((pool) => [pool, ...poolsOfKeys(pool)])) {
    await resize(world, pool, deployedCount(pool));
    await resume(world, pool);
  }
}

export async function resize(world: World, pool: PoolSetup, capacity: number): Promise<void> {
  const order = () => world.operatorOf(pool).resize(capacity, { reason: 'chaos', timeout: ANSWER });
  await ordered(world.observer, { kind: 'resize', resource: pool.resource, capacity }, order);
}

export async function pause(world: World, pool: PoolSetup, untilMs?: number): Promise<void> {
  const until = untilMs === undefined ? undefined : new Date(untilMs);
  const order = () => world.operatorOf(pool).pause({ until, reason: 'chaos', timeout: ANSWER });
  await ordered(world.observer, { kind: 'pause', resource: pool.resource, untilMs }, order);
}

export async function resume(world: World, pool: PoolSetup): Promise<void> {
  const order = () => world.operatorOf(pool).resume({ timeout: ANSWER });
  await ordered(world.observer, { kind: 'resume', resource: pool.resource }, order);
}

/**
 * Compares a limits file with what is in force and applies it, as the command line does. Other operators give their orders meanwhile.
 *
 * @returns what was changed
 * @throws Error if there was something to change, and none of it was
 */
export async function apply({ client, observer, options }: World, text: string): Promise<string[]> {
  const named = readLimitsFile(text, 'the limits file');
  const { file, seen } = await lookAtLimits(client, named);
  const changes = compare(file, seen).filter((it): it is ToChange => it.change !== undefined);
  const sentMs = Date.now();
  const onApplied = (applied: Applied) => {
    if (applied.is === 'not-sent') return;
    const answered = applied.is === 'changed' && { answeredMs: Date.now() };
    observer.orders.push(...ordersOf(applied.of).map((order) => ({ ...order, sentMs, ...answered })));
  };
  const applied = await applyChanges(client, changes, { taskQueue: options.taskQueue, onApplied });
  const changed = applied.filter(({ is }) => is === 'changed');
  const [problem] = applied.flatMap((it) => ('problem' in it ? it.problem : []));
  if (changed.length === 0 && problem !== undefined) throw new Error(problem);
  return changed.map(({ of }) => told(of));
}

/** What the file says of all that is changed. One change may be two orders, which take effect together. */
function ordersOf({ limit, change }: ToChange): Pick<Order, 'kind' | 'resource' | 'capacity'>[] {
  const [resource, { capacity, paused }] = [poolOf(limit), limit];
  return [
    ...(change.capacity === undefined ? [] : [{ kind: 'resize' as const, resource, capacity }]),
    ...(change.paused === undefined ? [] : [{ kind: paused ? ('pause' as const) : ('resume' as const), resource }]),
  ];
}

function told({ limit, inUse, change: { capacity, paused } }: ToChange): string {
  const notes = [
    capacity !== undefined && `${inUse} -> ${capacity}`,
    paused !== undefined && (paused ? 'paused' : 'resumed'),
  ];
  return [poolOf(limit), ...notes.filter((it) => it !== false)].join(' ');
}

/** The permits of each key, which are a pool of their own. */
function poolsOfKeys({ resource, perKey, flaky }: PoolSetup): PoolSetup[] {
  if (perKey === undefined) return [];
  return KEYS.map((key) => ({ resource: keyResource(resource, key), slots: { capacity: perKey }, flaky }));
}

/** Gives an operator's order, and records when it was answered. */
export async function ordered(
  { orders }: World['observer'],
  order: Omit<Order, 'sentMs' | 'answeredMs' | 'runId'>,
  give: () => Promise<{ runId?: string } | unknown>,
): Promise<void> {
  const call: Order = { ...order, sentMs: Date.now() };
  orders.push(call);
  const answer = await give();
  call.answeredMs = Date.now();
  if (typeof answer === 'object' && answer && 'runId' in answer) call.runId = String(answer.runId);
}
