import type { Client } from '@temporalio/client';
import { monotonicMs, pause } from '../client/server/clock';
import { messageOf } from '../client/server/errors';
import { mapConcurrently } from '../client/server/map-concurrently';
import { Server } from '../client/server/server';
import { isKeyResource, wholeOf } from '../shared/key-names';
import { isOpen } from '../shared/open';
import { isResource, queueId } from '../shared/permit-id';
import { statedCapacity } from './deployed-slots';
import type { Inspection, ResourceSlot } from './inspection';
import { ANSWERS_WITHIN_MS, disagreement } from './inspector';
import { Operator, type OperatorOptions } from './operator';
import { type ClientWaiter, listClientWaiters, listHolders, listQueues } from './visibility';
import { WorkerQueries } from './worker-queries';

/** What is in use of the keys of a resource that has a limit per key. */
export interface KeysInUse {
  /** How many keys hold a permit … */
  held: number;
  /** … and how many permits these keys hold. */
  permits: number;
  /** How many keys have a queue: a caller waits for a permit of the key, or has waited lately. */
  queued: number;
}

/** The use of one resource: its permits and its waiters. */
interface ResourceInUse {
  held: ResourceSlot[];
  /** It has a queue. */
  isQueued: boolean;
  /** The keys are counted only: there may be thousands. */
  keys?: KeysInUse;
  /** Of each key: its resource, with the slots held. */
  ofKeys?: ReadonlyMap<string, KeyInUse>;
}

export interface KeyInUse {
  held: ResourceSlot[];
  /** It has a queue. */
  isQueued: boolean;
}

/** A resource as far as it could be seen. */
export interface SeenResource extends Inspection {
  keys?: KeysInUse;
  /**
   * Workflows that wait for clients although no queue runs: no worker has run them yet, or the queue was terminated. `waiting` is absent
   * then, since Workflows may wait too.
   */
  unqueued?: readonly ClientWaiter[];
  /** How the last queue has ended, where clients wait without one: Temporal's status, such as `TERMINATED`. Absent if there was none. */
  queueEnded?: string;
  /** Why the look has failed: then ignore the other fields. */
  problem?: string;
  /** The look has failed because the time for all looks was over, so nothing is known of the resource. */
  isUnseen?: true;
}

interface LookOptions {
  /** Lists each key by itself. @default false: the keys are counted with their resource */
  keys?: boolean;
  /** Only this resource, and its keys. */
  of?: string;
  /**
   * Asks no permit for its lease, and takes a resource without a queue as the list has it, which is seconds late. It costs no call then.
   * @default false
   */
  overview?: boolean;
}

/** All resources of the namespace that have a holder or a waiter. The list is seconds late. */
export async function resourcesInUse(
  client: Client,
  { keys = false, of }: LookOptions = {},
): Promise<Map<string, ResourceInUse>> {
  const resources = new Map<string, ResourceInUse>();
  const used = new Map<string, Map<string, KeyInUse>>();
  const add = (name: string, held: ResourceSlot[]) => {
    const resource = keys ? name : wholeOf(name);
    // A foreign Workflow may have our type by chance, and a name that no resource can have.
    if (!isResource(name) || !isResource(resource)) return;
    if (of !== undefined && wholeOf(name) !== of) return;
    const known = resources.get(resource) ?? { held: [], isQueued: false };
    resources.set(resource, known);
    if (name === resource) known.held.push(...held);
    if (name === resource && held.length === 0) known.isQueued = true;
    if (name === resource || !isKeyResource(name)) return; // the other derived name is an accumulator's
    const ofKeys = used.get(resource) ?? new Map<string, KeyInUse>();
    used.set(resource, ofKeys);
    const key = ofKeys.get(name) ?? { held: [], isQueued: false };
    ofKeys.set(name, key);
    key.held.push(...held);
    if (held.length === 0) key.isQueued = true;
  };
  const all = await listHolders(client, undefined, { limit: Number.POSITIVE_INFINITY });
  for (const permit of all) add(permit.resource, [permit]);
  for (const resource of await listQueues(client)) add(resource, []);
  for (const [resource, ofKeys] of used) {
    const keys = [...ofKeys.values()];
    const holding = keys.filter(({ held }) => held.length > 0).length;
    const permits = keys.reduce((sum, { held }) => sum + held.length, 0);
    const queued = keys.filter(({ isQueued }) => isQueued).length;
    Object.assign(resources.get(resource) ?? {}, { keys: { held: holding, permits, queued }, ofKeys });
  }
  return resources;
}

/** How long all looks together may take. Any client may start thousands of permits. */
const LOOKS_WITHIN_MS = 6_000;

/** A queue is described twice in one look. The second time, its first answer serves. */
const ANSWER_SERVES_MS = 1_000;

/**
 * Looks at each resource of the namespace that has a holder or a queue. The list of resources is seconds late. A resource that could
 * not be looked at within six seconds is marked `isUnseen`.
 * @throws the first resource's error when every look has failed
 */
export async function inspectAllInUse(client: Client, options: LookOptions = {}): Promise<SeenResource[]> {
  const inUse = await resourcesInUse(client, options);
  const { overview = false } = options;
  const mayAskPermit = overview ? () => false : undefined;
  const errors: unknown[] = [];
  const queries = new WorkerQueries(new Server(client), ANSWERS_WITHIN_MS);
  const over = new AbortController();
  const tooLate = new Error(
    `not inspected: inspecting ${inUse.size} resources took more than ${LOOKS_WITHIN_MS / 1_000} s`,
  );
  const timeUp = pause(LOOKS_WITHIN_MS, over.signal).then(() => {
    throw tooLate;
  });
  timeUp.catch(() => undefined);
  const untilMs = monotonicMs() + LOOKS_WITHIN_MS;
  const seen = await mapConcurrently([...inUse.keys()].sort(), async (resource): Promise<SeenResource> => {
    try {
      const { held = [], isQueued, keys } = inUse.get(resource) ?? {};
      if (overview && !isQueued) return { ...listed(resource, held), ...(keys && { keys }) };
      if (monotonicMs() >= untilMs) await timeUp;
      const operator = new Operator(client, resource);
      operator.addHeld(held);
      const asking = { recent: 0, search: false, queries, servesMs: ANSWER_SERVES_MS, mayAskPermit };
      const inspection = await Promise.race([operator.inspect(asking), timeUp]);
      return keys ? { ...inspection, keys } : inspection;
    } catch (error) {
      errors.push(error);
      return { ...unseen(resource, error), ...(error === tooLate && { isUnseen: true }) };
    }
  });
  over.abort();
  // One failed look must not hide the other resources. When all have failed, the cause is no resource.
  if (errors.length > 0 && errors.length === seen.length) throw errors[0];
  return await withUnqueued(client, seen);
}

/**
 * Adds who waits without a queue. It costs one call to visibility, if a resource has no queue and no free slot: only then may a client wait so.
 */
export async function withUnqueued(client: Client, resources: readonly SeenResource[]): Promise<SeenResource[]> {
  const mayBe = resources.filter(
    ({ queue, slots }) => queue === 'none' && slots.every(({ state }) => state !== 'free'),
  );
  if (mayBe.length === 0) return [...resources];
  const [only] = mayBe;
  const waiters = await listClientWaiters(client, mayBe.length === 1 ? only?.resource : undefined);
  return await mapConcurrently(resources, async (seen) => {
    const unqueued = mayBe.includes(seen) ? waiters.get(seen.resource) : undefined;
    if (!unqueued) return seen;
    const { waiting: _unknown, ...rest } = seen;
    const queueEnded = await endOf(client, queueId(seen.resource));
    return {
      ...rest,
      unqueued: unqueued.map(({ workflowId, taskQueue }) => ({ workflowId, taskQueue })),
      ...(queueEnded !== undefined && { queueEnded }),
    };
  });
}

/** How the latest run of a Workflow has ended. `undefined` if it has not, or if there is no such Workflow. */
export async function endOf(client: Client, workflowId: string): Promise<string | undefined> {
  try {
    const { status } = await client.workflow.getHandle(workflowId).describe();
    return isOpen({ status }) ? undefined : status.name;
  } catch {
    return undefined; // it is only for a message
  }
}

/** A key of a resource as it is now. */
export interface SeenKey {
  operator: Operator;
  seen: SeenResource;
}

/**
 * The keys of a resource that have a holder, a waiter or an override, by name. The list is seconds late. It includes keys that can't be
 * inspected, with their `problem`.
 */
export async function keysInUse(
  client: Client,
  resource: string,
  options: Pick<OperatorOptions, 'taskQueue'> = {},
): Promise<SeenKey[]> {
  const { ofKeys = new Map<string, KeyInUse>() } = (await resourcesInUse(client, { of: resource })).get(resource) ?? {};
  const inUse = [...ofKeys].sort(([a], [b]) => (a < b ? -1 : 1));
  const queries = new WorkerQueries(new Server(client), ANSWERS_WITHIN_MS);
  const keys = await mapConcurrently(inUse, async ([name, { held }]): Promise<SeenKey> => {
    const operator = new Operator(client, name, options);
    operator.addHeld(held);
    try {
      return { operator, seen: await operator.inspect({ recent: 0, search: false, queries }) };
    } catch (error) {
      return { operator, seen: unseen(name, error) };
    }
  });
  return keys.filter(({ seen }) => seen.held > 0 || seen.waiting !== 0 || seen.override);
}

/** A resource without a queue, by its permits. */
function listed(resource: string, held: readonly ResourceSlot[]): Inspection {
  const all = [...held].sort((a, b) => a.slot.localeCompare(b.slot, undefined, { numeric: true }));
  const capacity = statedCapacity(all);
  const beliefs = disagreement(all, []);
  return {
    resource,
    ...(capacity !== undefined && { capacity, free: Math.max(0, capacity - all.length) }),
    held: all.filter(({ state }) => state === 'held').length,
    waiting: 0,
    slots: all.map(({ slot, state, permit }) => ({ slot, state, permit: { ...permit, leaseSpared: true } })),
    waiters: [],
    queue: 'none',
    ...(beliefs && { disagreement: beliefs }),
    recent: [],
  };
}

function unseen(resource: string, error: unknown): SeenResource {
  return { resource, held: 0, slots: [], waiters: [], queue: 'silent', recent: [], problem: messageOf(error) };
}
