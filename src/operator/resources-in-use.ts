import type { Client } from '@temporalio/client';
import { messageOf } from '../client/errors';
import { mapConcurrently, monotonicMs, pause, Server } from '../client/server';
import { isKeyPool, isResource, wholeOf } from '../shared/permit-id';
import type { Inspection } from './inspection';
import { ANSWERS_WITHIN_MS } from './inspector';
import { Operator, type OperatorOptions } from './operator';
import { listHolders, listQueues } from './visibility';
import { WorkerQueries } from './worker-queries';

/** What is in use of the keys of a resource that has a limit per key. */
export interface KeysInUse {
  /** How many keys hold a permit … */
  held: number;
  /** … and how many permits these keys hold. */
  permits: number;
  /** How many keys have a queue: somebody waits for a permit of the key, or has waited lately. */
  queued: number;
}

/** The use of one resource: its held slots and its waiters. */
interface ResourceInUse {
  /** The slots held. */
  slots: string[];
  /** The keys are counted only: there may be thousands. */
  keys?: KeysInUse;
  /** Of each key: its resource, with the slots held. */
  ofKeys?: ReadonlyMap<string, KeyInUse>;
}

export interface KeyInUse {
  slots: string[];
  /** It has a queue. */
  isQueued: boolean;
}

/** A resource as far as it could be seen. */
export interface SeenResource extends Inspection {
  keys?: KeysInUse;
  /** Why the look has failed: then ignore the other fields. */
  problem?: string;
}

interface LookOptions {
  /** Lists each key by itself. @default false: the keys are counted with their resource */
  keys?: boolean;
  /** Only this resource, and its keys. */
  of?: string;
}

/** All resources of the namespace of which somebody holds or waits for a permit. The list is seconds late. */
export async function resourcesInUse(
  client: Client,
  { keys = false, of }: LookOptions = {},
): Promise<Map<string, ResourceInUse>> {
  const resources = new Map<string, ResourceInUse>();
  const used = new Map<string, Map<string, KeyInUse>>();
  const add = (name: string, slots: string[]) => {
    const resource = keys ? name : wholeOf(name);
    // Somebody else's Workflow may have our type by chance, and a name that no resource can have.
    if (!isResource(name) || !isResource(resource)) return;
    if (of !== undefined && wholeOf(name) !== of) return;
    const known = resources.get(resource) ?? { slots: [] };
    resources.set(resource, known);
    if (name === resource) known.slots.push(...slots);
    if (name === resource || !isKeyPool(name)) return; // else somebody takes several permits of the resource
    const ofKeys = used.get(resource) ?? new Map<string, KeyInUse>();
    used.set(resource, ofKeys);
    const key = ofKeys.get(name) ?? { slots: [], isQueued: false };
    ofKeys.set(name, key);
    key.slots.push(...slots);
    if (slots.length === 0) key.isQueued = true;
  };
  const held = await listHolders(client, undefined, { limit: Number.POSITIVE_INFINITY });
  for (const { resource, slot } of held) add(resource, [slot]);
  for (const resource of await listQueues(client)) add(resource, []);
  for (const [resource, ofKeys] of used) {
    const keys = [...ofKeys.values()];
    const held = keys.filter(({ slots }) => slots.length > 0).length;
    const permits = keys.reduce((sum, { slots }) => sum + slots.length, 0);
    const queued = keys.filter(({ isQueued }) => isQueued).length;
    Object.assign(resources.get(resource) ?? {}, { keys: { held, permits, queued }, ofKeys });
  }
  return resources;
}

/** How long all looks together may take. Anybody may start thousands of permits. */
const LOOKS_WITHIN_MS = 6_000;

/**
 * Looks at each resource of the namespace that has a holder or a queue. The list of resources is seconds late. A resource that could
 * not be looked at within six seconds has a `problem` that says so.
 * @throws the first resource's error when every look has failed
 */
export async function inspectAllInUse(client: Client, options: LookOptions = {}): Promise<SeenResource[]> {
  const inUse = await resourcesInUse(client, options);
  const errors: unknown[] = [];
  const queries = new WorkerQueries(new Server(client), ANSWERS_WITHIN_MS);
  const over = new AbortController();
  const timeUp = pause(LOOKS_WITHIN_MS, over.signal).then(() => {
    throw new Error(`not looked at: the looks at ${inUse.size} resources took more than ${LOOKS_WITHIN_MS / 1_000} s`);
  });
  timeUp.catch(() => undefined);
  const untilMs = monotonicMs() + LOOKS_WITHIN_MS;
  const seen = await mapConcurrently([...inUse.keys()].sort(), async (resource): Promise<SeenResource> => {
    try {
      const { slots = [], keys } = inUse.get(resource) ?? {};
      if (monotonicMs() >= untilMs) await timeUp;
      const operator = new Operator(client, resource);
      operator.addSlots(slots);
      const inspection = await Promise.race([operator.inspect({ recent: 0, search: false, queries }), timeUp]);
      return keys ? { ...inspection, keys } : inspection;
    } catch (error) {
      errors.push(error);
      return unseen(resource, error);
    }
  });
  over.abort();
  // One failed look must not hide the other resources. When all have failed, the cause is no resource.
  if (errors.length > 0 && errors.length === seen.length) throw errors[0];
  return seen;
}

/** A key of a resource as it is now. */
export interface SeenKey {
  operator: Operator;
  seen: SeenResource;
}

/**
 * The keys of a resource of which somebody holds or waits for a permit, or for which an operator has set something, by name. The list is
 * seconds late. A key that can't be looked at is among them, with its `problem`.
 */
export async function keysInUse(
  client: Client,
  resource: string,
  options: Pick<OperatorOptions, 'taskQueue'> = {},
): Promise<SeenKey[]> {
  const { ofKeys = new Map<string, KeyInUse>() } = (await resourcesInUse(client, { of: resource })).get(resource) ?? {};
  const inUse = [...ofKeys].sort(([a], [b]) => (a < b ? -1 : 1));
  const queries = new WorkerQueries(new Server(client), ANSWERS_WITHIN_MS);
  const keys = await mapConcurrently(inUse, async ([name, { slots }]): Promise<SeenKey> => {
    const operator = new Operator(client, name, options);
    operator.addSlots(slots);
    try {
      return { operator, seen: await operator.inspect({ recent: 0, search: false, queries }) };
    } catch (error) {
      return { operator, seen: unseen(name, error) };
    }
  });
  return keys.filter(({ seen }) => seen.held > 0 || seen.waiting !== 0 || seen.override);
}

function unseen(resource: string, error: unknown): SeenResource {
  return { resource, held: 0, slots: [], waiters: [], queue: 'silent', recent: [], problem: messageOf(error) };
}
