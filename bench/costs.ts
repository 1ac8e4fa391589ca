import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { PermitPool, SemaphoreClient, type SemaphoreClientOptions } from '@/client';
import { Poller } from '@/dashboard/poller';
import { Operator } from '@/operator';
import { permitId, queueId } from '@/shared/permit-id';
import { permitsQuery } from '../scripts/support/holder-intervals';
import { scrape } from '../scripts/support/prometheus';
import { type Row, row } from './report';
import { type Bench, untilCounted } from './support';

/** One thing that was done, as a bill and a history count it. */
interface Cost {
  /** As the server counts them for Temporal Cloud's bill. */
  actions: number;
  events: number;
}

/** Of which Workflows the events count: all of each, or of one run. */
interface Run {
  workflowId: string;
  runId?: string;
}

const MINUTE_MS = 60_000;
const RENEWALS = 20;
const PAGE_SLOTS = 20;

/** Until what has ended is counted. */
const COUNTED_MS = 1_500;

/** `pnpm bench costs`: 15 minutes, in which next to nothing happens. */
export async function costs(bench: Bench): Promise<Row[]> {
  const { metrics } = bench.env;
  if (!metrics) throw new Error('costs reads the counters of a server of its own: unset TEMPORAL_SEMAPHORE_SERVER.');
  const cost = async (act: (resource: string) => Promise<Run[]>): Promise<Cost> => {
    await delay(COUNTED_MS);
    const before = await actionsAt(metrics);
    const runs = await act(`cost-${randomUUID().slice(0, 8)}`);
    await delay(COUNTED_MS);
    return { actions: (await actionsAt(metrics)) - before, events: await eventsOf(bench, runs) };
  };
  const bare = await cost(() => bareChild(bench));
  const rows = [
    ['a hold of a Workflow, with its start', await cost((resource) => workflowHold(bench, resource))],
    ['a hold of a client', await cost((resource) => clientHold(bench, resource))],
    ['a set of two, of a Workflow', await cost((resource) => setHold(bench, resource))],
    ['a try of a Workflow that is refused, with its start', await refusedTry(bench, cost)],
    ['a renewal', await renewal(bench, cost)],
    ['a wait behind a hold of 2 s', await waitBehind(bench, cost, 2_000)],
    ['a wait behind a hold of 1 minute', await waitBehind(bench, cost, MINUTE_MS)],
    ['a wait behind a hold of 10 minutes', await waitBehind(bench, cost, 10 * MINUTE_MS)],
    ['a minute of a permit pool', await cost((resource) => poolMinute(bench, resource))],
    ['a minute of the page, 20 held slots', await pageMinute(bench, cost)],
  ] as const;
  return rows.flatMap(([what, { actions, events }]) => [
    row(`${what}: Actions`, ['bare child, with its start', bare.actions], actions, 'actions'),
    row('… events', ['bare child, with its parent', bare.events], events, 'events'),
  ]);
}

type Measure = (act: (resource: string) => Promise<Run[]>) => Promise<Cost>;

function start({ client, taskQueue }: Bench, type: string, args: unknown[]) {
  return client.workflow.start(type, { workflowId: `cost-${randomUUID()}`, taskQueue, args });
}

function semaphoreOf({ client, taskQueue }: Bench, resource: string, options: Partial<SemaphoreClientOptions> = {}) {
  return new SemaphoreClient(client, resource, { capacity: 1, taskQueue, ...options });
}

async function bareChild(bench: Bench): Promise<Run[]> {
  const parent = await start(bench, 'bareConsumer', []);
  return [{ workflowId: parent.workflowId }, { workflowId: await parent.result() }];
}

async function workflowHold(bench: Bench, resource: string): Promise<Run[]> {
  const consumer = await start(bench, 'parkingConsumer', [{ resource, capacity: 1, holdMs: 0 }]);
  await consumer.result();
  return [consumer, { workflowId: permitId({ resource, slot: '0' }) }];
}

async function clientHold(bench: Bench, resource: string): Promise<Run[]> {
  await semaphoreOf(bench, resource).withPermit(async () => undefined);
  return [{ workflowId: permitId({ resource, slot: '0' }) }];
}

async function setHold(bench: Bench, resource: string): Promise<Run[]> {
  const resources = ['a', 'b'].map((name) => `${resource}-${name}`);
  const consumer = await start(bench, 'setConsumer', [resources]);
  await consumer.result();
  return [consumer, ...resources.map((resource) => ({ workflowId: permitId({ resource, slot: '0' }) }))];
}

async function refusedTry(bench: Bench, cost: Measure): Promise<Cost> {
  const resource = `cost-${randomUUID().slice(0, 8)}`;
  const permit = await semaphoreOf(bench, resource, { renewEvery: false }).acquire();
  const refused = await cost(async () => {
    const consumer = await start(bench, 'tryConsumer', [resource]);
    if (await consumer.result()) throw new Error('the slot was free');
    return [consumer];
  });
  await permit.release();
  return refused;
}

async function renewal(bench: Bench, cost: Measure): Promise<Cost> {
  const resource = `cost-${randomUUID().slice(0, 8)}`;
  const permit = await semaphoreOf(bench, resource, { lease: '1 hour', renewEvery: false }).acquire();
  const before = await eventsOf(bench, [permit]);
  const { actions, events } = await cost(async () => {
    for (let renewal = 0; renewal < RENEWALS; renewal++) await permit.renew();
    return [permit];
  });
  await permit.release();
  return { actions: actions / RENEWALS, events: (events - before) / RENEWALS };
}

/** From when somebody holds until the waiter has held too: the waiter with its start, the queue, and both permits. */
async function waitBehind(bench: Bench, cost: Measure, holdMs: number): Promise<Cost> {
  const resource = `cost-${randomUUID().slice(0, 8)}`;
  const holder = await start(bench, 'parkingConsumer', [{ resource, capacity: 1, holdMs }]);
  await untilCounted(bench.client, permitsQuery(resource), 1);
  const workflowId = permitId({ resource, slot: '0' });
  const { runId } = await bench.client.workflow.getHandle(workflowId).describe();
  return await cost(async () => {
    const waiter = await start(bench, 'parkingConsumer', [{ resource, capacity: 1, holdMs: 0 }]);
    await Promise.all([waiter.result(), holder.result()]);
    return [waiter, { workflowId: queueId(resource) }, { workflowId, runId }, { workflowId }];
  });
}

/** Calls of 100 ms one after the other, and nobody else waits. */
async function poolMinute(bench: Bench, resource: string): Promise<Run[]> {
  const pool = new PermitPool(semaphoreOf(bench, resource), { reuseFor: 10 * MINUTE_MS });
  const untilMs = performance.now() + MINUTE_MS;
  while (performance.now() < untilMs) await pool.withPermit(() => delay(100));
  await pool.close();
  return [{ workflowId: permitId({ resource, slot: '0' }) }];
}

/** What the page adds to a minute. No holder renews meanwhile: one more round of renewals in one of the two minutes would distort the result. */
async function pageMinute(bench: Bench, cost: Measure): Promise<Cost> {
  const resource = `cost-${randomUUID().slice(0, 8)}`;
  const semaphore = semaphoreOf(bench, resource, { capacity: PAGE_SLOTS, lease: '1 hour' });
  const permits = await Promise.all(Array.from({ length: PAGE_SLOTS }, () => semaphore.acquire()));
  const minute = async () => {
    await delay(MINUTE_MS);
    return [];
  };
  const alone = await cost(minute);
  const operator = new Operator(bench.client, resource, { capacity: PAGE_SLOTS });
  const page = new Poller(
    operator,
    () => ({ lookEveryMs: 1_000, pastEveryMs: 10_000 }),
    () => undefined,
    { mayAskPermit: () => true, mayAskPast: () => true },
  );
  page.start(0);
  const watched = await cost(minute);
  page.stop();
  await Promise.all(permits.map((permit) => permit.release()));
  return { actions: watched.actions - alone.actions, events: 0 };
}

/** How many Actions of our namespace the server has counted. */
async function actionsAt(metrics: string): Promise<number> {
  const counted = (await scrape(metrics)).filter(({ name, labels }) => {
    return /^action(_total)?$/.test(name) && labels.namespace === 'default';
  });
  return counted.reduce((sum, { value }) => sum + value, 0);
}

async function eventsOf({ client }: Bench, runs: readonly Run[]): Promise<number> {
  const lengths = runs.map(async ({ workflowId, runId }) => {
    return (await client.workflow.getHandle(workflowId, runId).describe()).historyLength;
  });
  return (await Promise.all(lengths)).reduce((sum, length) => sum + length, 0);
}
