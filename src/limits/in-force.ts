import type { Client } from '@temporalio/client';
import { mapConcurrently } from '../client/server/map-concurrently';
import { Server } from '../client/server/server';
import { addTo } from '../operator/add-to';
import type { Inspection, ResourceSlot, SlotsBelief } from '../operator/inspection';
import { ANSWERS_WITHIN_MS, disagreement, Inspector } from '../operator/inspector';
import { listHolders } from '../operator/visibility';
import { WorkerQueries } from '../operator/worker-queries';
import type { OverrideState } from '../shared/protocol';
import type { Slots } from '../shared/slots';
import { type LimitsFile, poolOf, withKeysInUse } from './limit';

/** What limits one resource now, and who uses it. */
export interface InForce {
  /** `silent`: no worker answers for the queue, so what an operator has set is not known. */
  readonly queue: Inspection['queue'];
  /** The task queue on which that queue runs; absent if none runs. */
  readonly taskQueue?: string;
  /** What an operator has set, as the queue keeps it. */
  readonly override?: OverrideState;
  /** The slots that waiters take the resource to have, each opinion once. */
  readonly told: readonly Slots[];
  /** The permits, as visibility lists them: seconds late. */
  readonly permits: readonly ResourceSlot[];
  /** Present only if two callers differ. */
  readonly disagreement?: readonly SlotsBelief[];
}

/** What the last look has found, by resource: a queue whose history has not changed since is not asked again. */
export type Looks = Map<string, Inspector>;

/** All permits of the namespace, by resource, as visibility lists them: seconds late. */
async function heldPermits(client: Client): Promise<Map<string, ResourceSlot[]>> {
  const permits = new Map<string, ResourceSlot[]>();
  const held = await listHolders(client, undefined, { limit: Number.POSITIVE_INFINITY });
  for (const permit of held) addTo(permits, permit.resource, permit);
  return permits;
}

/** Looks at all that a file limits. @returns the file with a limit for each key in use that it does not name, and what is in force for each */
export async function lookAtLimits(
  client: Client,
  named: LimitsFile,
  looks?: Looks,
): Promise<{ file: LimitsFile; seen: Map<string, InForce> }> {
  const permits = await heldPermits(client);
  const isHeld = (of: readonly ResourceSlot[]) => of.some(({ state }) => state !== 'drained');
  const held = [...permits].flatMap(([pool, of]) => (isHeld(of) ? pool : []));
  const file = withKeysInUse(named, held);
  return { file, seen: await look(client, file.limits.map(poolOf), permits, looks) };
}

/**
 * Looks at many resources. It writes nothing. A resource costs one `describe` of its queue, and one query while that runs, unless an earlier
 * look tells its answer; all permits of the namespace cost one call to visibility for each thousand.
 *
 * @param pools the names of resources; the permits of a key are one
 */
export async function lookAtPools(client: Client, pools: readonly string[]): Promise<Map<string, InForce>> {
  return await look(client, pools, await heldPermits(client));
}

async function look(
  client: Client,
  pools: readonly string[],
  permits: ReadonlyMap<string, ResourceSlot[]>,
  looks: Looks = new Map(),
): Promise<Map<string, InForce>> {
  const wanted = new Set(pools);
  for (const pool of looks.keys()) if (!wanted.has(pool)) looks.delete(pool);
  const server = new Server(client);
  const queries = new WorkerQueries(server, ANSWERS_WITHIN_MS);
  const seen = await mapConcurrently(pools, async (pool): Promise<[string, InForce]> => {
    const inspector = looks.get(pool) ?? new Inspector(server, pool);
    looks.set(pool, inspector);
    const { queue, taskQueue, view } = await inspector.queue({ queries, servesMs: Number.POSITIVE_INFINITY });
    const tickets = view?.tickets ?? [];
    const of = permits.get(pool) ?? [];
    const told = [...new Map(tickets.map(({ slots }) => [String(slots), slots])).values()];
    const beliefs = disagreement(of, tickets);
    return [
      pool,
      {
        queue,
        ...(taskQueue !== undefined && { taskQueue }),
        ...(view?.override && { override: view.override }),
        told,
        permits: of,
        ...(beliefs && { disagreement: beliefs }),
      },
    ];
  });
  return new Map(seen);
}

/** When the leases of these permits end, unless their holders renew them: the permits with `leaseDeadline`, where a worker answers. */
export async function withLeases(client: Client, permits: readonly ResourceSlot[]): Promise<ResourceSlot[]> {
  const server = new Server(client);
  const queries = new WorkerQueries(server, ANSWERS_WITHIN_MS);
  const asked = await mapConcurrently(permits, async ({ resource, slot }) => {
    const now = await new Inspector(server, resource).slot(slot, { queries, servesMs: 0 });
    return now.permit && now.state === 'held' ? [{ ...now, resource, permit: now.permit }] : []; // released since
  });
  return asked.flat();
}
