import {
  type Client,
  isGrpcServiceError,
  type WorkflowClient,
  type WorkflowExecutionInfo,
  WorkflowNotFoundError,
} from '@temporalio/client';
import { monotonicMs } from '../client/server/clock';
import { lenientReader } from '../client/server/lenient-reader';
import { mapConcurrently } from '../client/server/map-concurrently';
import { Server } from '../client/server/server';
import { readPermitMemo } from '../shared/lenient-input';
import { isOpen } from '../shared/open';
import { permitId, resourceOfQueue, resourceOfWaiter, waiterId } from '../shared/permit-id';
import { PERMIT_OUTCOMES, PERMIT_WORKFLOWS, QUEUE_WORKFLOW, WAITER_WORKFLOW } from '../shared/protocol';
import { addTo } from './add-to';
import type { PastHold, ResourceSlot } from './inspection';
import { permitAddress, permitOf, stateOf } from './reader';

// Visibility is seconds late, and a server allows few calls to it (by default 10 a second for a whole namespace, on Temporal
// Cloud 30): never poll it.

/** The most runs to look through for one resource's past holds. */
const MAX_LISTED = 100;

/** The most runs that a server lists in one answer. */
const PAGE = 1_000;

/** How long one listing may take. Ten thousand permits are ten calls. */
const LISTING_MS = 30_000;

const PERMITS = `WorkflowType IN (${PERMIT_WORKFLOWS.map((type) => `"${type}"`).join(', ')})`;
const WAITERS = `WorkflowType = "${WAITER_WORKFLOW}"`;
const QUEUES = `WorkflowType = "${QUEUE_WORKFLOW}"`;

/** A server that knows no pause refuses the second status. (`CloseTime IS NULL` would have an SQL database read all that has ended.) */
const OPEN = 'ExecutionStatus IN ("Running", "Paused")';
const RUNNING = 'ExecutionStatus = "Running"';

/** gRPC's code INVALID_ARGUMENT. */
const REFUSED = 3;

/** The connections to servers that know no pause, and when each said so. It is asked again after an hour: servers are upgraded. */
const withoutPause = new WeakMap<object, number>();
const BELIEVED_MS = 3_600_000;

/** The open Workflows that the query finds, newest first. */
async function* listOpen(client: Client, query: string, pageSize?: number): AsyncIterable<WorkflowExecutionInfo> {
  const list = (status: string) => lenientReader(client).list({ query: `${query} AND ${status}`, pageSize });
  const { connection } = client;
  const refusedMs = withoutPause.get(connection) ?? Number.NEGATIVE_INFINITY;
  if (monotonicMs() - refusedMs > BELIEVED_MS) {
    try {
      return yield* list(OPEN);
    } catch (error) {
      const { cause } = error as Error;
      if (!isGrpcServiceError(cause) || cause.code !== REFUSED) throw error;
      withoutPause.set(connection, monotonicMs());
    }
  }
  yield* list(RUNNING);
}

/** The options of {@link listHolders}. */
export interface ListHoldersOptions {
  /** The most permits to list. A call lists up to 1,000. @default 1,000 */
  limit?: number | undefined;
}

/**
 * The permits that are held, newest first: of one resource, or of every resource in the client's namespace. They come from
 * visibility, so they are seconds late and have no lease deadline. `Operator.inspect` is exact.
 *
 * @param resource the resource; `undefined`: every resource
 * @throws ServiceError when the server can't be reached, or refuses
 *
 * @example
 * ```ts
 * import { listHolders } from 'temporal-semaphore/operator';
 *
 * for (const { resource, slot, permit } of await listHolders(client)) console.log(resource, slot, permit.holder.workflowId);
 * ```
 */
export async function listHolders(
  client: Client,
  resource?: string,
  { limit = 1_000 }: ListHoldersOptions = {},
): Promise<ResourceSlot[]> {
  const query = resource === undefined ? PERMITS : `${startsLike(permitId({ resource, slot: '' }))} AND ${PERMITS}`;
  const held: ResourceSlot[] = [];
  await new Server(client).call(async () => {
    for await (const run of listOpen(client, query, Math.min(limit, PAGE))) {
      const address = permitAddress(run.workflowId);
      if (!address) continue; // a foreign Workflow of this type
      if (resource !== undefined && address.resource !== resource) continue;
      const permit = permitOf(run);
      held.push({ ...address, state: stateOf(address.resource, permit), permit });
      if (held.length >= limit) break;
    }
  }, LISTING_MS);
  return held;
}

/** The resources that have a queue. */
export async function listQueues(client: Client): Promise<string[]> {
  const resources: string[] = [];
  await new Server(client).call(async () => {
    for await (const { workflowId } of listOpen(client, QUEUES)) resources.push(resourceOfQueue(workflowId));
  }, LISTING_MS);
  return resources;
}

/** A Workflow that waits for a client. */
export type ClientWaiter = Pick<WorkflowExecutionInfo, 'workflowId' | 'taskQueue'>;

/** The Workflows that wait for clients, by resource: the newest 1,000 of one resource, or of all. */
export async function listClientWaiters(client: Client, resource?: string): Promise<Map<string, ClientWaiter[]>> {
  const query = resource === undefined ? WAITERS : `${startsLike(waiterId(resource, ''))} AND ${WAITERS}`;
  const waiters = new Map<string, ClientWaiter[]>();
  await new Server(client).call(async () => {
    let listed = 0;
    for await (const run of listOpen(client, query, PAGE)) {
      addTo(waiters, resourceOfWaiter(run.workflowId), run);
      if (++listed >= PAGE) break;
    }
  }, LISTING_MS);
  return waiters;
}

/**
 * A search for "a" also finds the permits of "a:b". A server with an SQL database finds no `"` and no `\`, however they are escaped
 * (1.29.1 on SQLite), so the search stops before the first of them.
 */
function startsLike(workflowId: string): string {
  const [findable] = workflowId.split(/["\\]/, 1);
  return `WorkflowId STARTS_WITH "${findable}"`;
}

/** How runs have ended, by run ID. An outcome never changes, so each costs one call. */
export type KnownOutcomes = Map<string, PastHold['outcome']>;

/**
 * The last holds of one resource that have ended, by visibility.
 *
 * @param known the outcomes that the last call has found; this call replaces them with its own
 */
export async function listPastHolds(
  server: Server,
  resource: string,
  count: number,
  known: KnownOutcomes,
): Promise<PastHold[]> {
  if (count <= 0) return [];
  const reader = lenientReader(server.client);
  const runs = await server.call(() => listEnded(reader, resource, count));
  const outcomes = await mapConcurrently(
    runs,
    async (run) => known.get(run.runId) ?? (await outcomeOf(server, reader, run)),
  );
  known.clear();
  return runs.flatMap((run, index) => {
    const outcome = outcomes[index];
    if (!outcome) return [];
    known.set(run.runId, outcome);
    const { runId, holder, purpose, permitPool, since: from } = permitOf(run);
    const { releasedAtMs } = readPermitMemo(run.memo);
    const slot = permitAddress(run.workflowId)?.slot ?? '';
    return {
      slot,
      runId,
      holder,
      ...(purpose !== undefined && { purpose }),
      ...(permitPool !== undefined && { permitPool }),
      from,
      to: releasedAtMs === undefined ? (run.closeTime ?? from) : new Date(releasedAtMs),
      outcome,
    };
  });
}

async function listEnded(reader: WorkflowClient, resource: string, count: number): Promise<WorkflowExecutionInfo[]> {
  const query = `${startsLike(permitId({ resource, slot: '' }))} AND ExecutionStatus != "Running"`;
  const runs: WorkflowExecutionInfo[] = [];
  let listed = 0;
  for await (const run of reader.list({ query, pageSize: MAX_LISTED })) {
    if (isOpen(run)) continue; // it is paused
    const isOurs = permitAddress(run.workflowId)?.resource === resource;
    if (isOurs && stateOf(resource, permitOf(run)) !== 'drained') runs.push(run);
    if (++listed >= MAX_LISTED || runs.length >= count) break;
  }
  return runs;
}

/** `undefined` when visibility still lists the run, but its history is gone. */
async function outcomeOf(
  server: Server,
  reader: WorkflowClient,
  run: WorkflowExecutionInfo,
): Promise<PastHold['outcome'] | undefined> {
  if (run.status.name === 'TERMINATED') return 'terminated';
  if (run.status.name === 'TIMED_OUT') return 'timed-out';
  if (run.status.name !== 'COMPLETED') return 'failed';
  if (readPermitMemo(run.memo).wasRevoked) return 'revoked';
  try {
    const result: unknown = await server.call(() => reader.getHandle(run.workflowId, run.runId).result());
    return PERMIT_OUTCOMES.find((outcome) => outcome === result) ?? 'unknown';
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return undefined;
    throw error;
  }
}
