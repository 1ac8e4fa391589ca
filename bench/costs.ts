import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { WorkflowHandle } from '@temporalio/client';
import { optionalTsToMs } from '@temporalio/common/lib/time';
import { permitId, queueId } from '@/shared/permit-id';
import { permitsQuery } from '../scripts/support/holder-intervals';
import type { Consumer, Load } from './contend';
import { type Row, row } from './report';
import { type Bench, untilCounted } from './support';

type Event = NonNullable<Awaited<ReturnType<WorkflowHandle['fetchHistory']>>['events']>[number];

/** What counts as an Action on Temporal Cloud, of what our Workflows write. A signal counts where it arrives. */
const ACTIONS = [
  'workflowExecutionStartedEventAttributes',
  'workflowExecutionSignaledEventAttributes',
  'timerStartedEventAttributes',
  'workflowPropertiesModifiedEventAttributes',
] as const satisfies (keyof Event)[];

interface Cost {
  events: number;
  actions: number;
}

const HOUR_MS = 3_600_000;

/** When a hold is this old, the queue looks at it as rarely as it ever does: every four minutes. */
const OLD_MS = 16 * 60_000;

/** The waits are watched for so long after that. */
const WATCHED_MS = 12 * 60_000;

/** What an hour of waiting writes: one waiter, and ten, park behind a hold, beside one that polls. */
export function waitingHours(bench: Bench): Promise<Row[]> {
  return Promise.all([
    perHour(bench, 'pollingConsumer', 1),
    perHour(bench, 'parkingConsumer', 1),
    perHour(bench, 'parkingConsumer', 10),
  ]).then(([polling, one, ten]) => [
    row('an hour of waiting, alone: events', ['polling each second', polling.events], one.events, 'events', {
      atMost: 0.01,
    }),
    row('… each of ten waiters: events', ['polling each second', polling.events], ten.events, 'events', {
      atMost: 0.01,
    }),
    row('… alone: Cloud Actions', ['polling each second', polling.actions], one.actions, 'actions'),
    row('… each of ten waiters: Cloud Actions', ['polling each second', polling.actions], ten.actions, 'actions'),
  ]);
}

async function perHour(bench: Bench, type: Consumer, waiters: number): Promise<Cost> {
  const resource = `hour-${randomUUID().slice(0, 8)}`;
  const start = (type: Consumer, input: Load) =>
    bench.client.workflow.start(type, {
      workflowId: `${resource}-${randomUUID()}`,
      taskQueue: bench.taskQueue,
      args: [{ ...input, resource }],
    });
  // Nothing renews it, so that the looks are all that the permit writes.
  const holder = await start('parkingConsumer', { capacity: 1, holdMs: HOUR_MS, leaseMs: HOUR_MS });
  await untilCounted(bench.client, permitsQuery(resource), 1);
  const waiting = await Promise.all(Array.from({ length: waiters }, () => start(type, { capacity: 1, holdMs: 0 })));
  const ids = [...waiting.map(({ workflowId }) => workflowId), permitId({ resource, slot: '0' })];
  if (type === 'parkingConsumer') ids.push(queueId(resource));
  // What a poller costs does not change with time, and its load would disturb the others.
  await delay(type === 'pollingConsumer' ? 5_000 : OLD_MS);
  const windowMs = type === 'pollingConsumer' ? 20_000 : WATCHED_MS;
  const fromMs = Date.now();
  await delay(windowMs);
  const { events, actions } = await costOf(bench, ids, fromMs);
  const share = HOUR_MS / windowMs / waiters;
  for (const handle of [...waiting, holder]) await handle.cancel();
  return { events: events * share, actions: actions * share };
}

/** One consumer that nobody contends, and the second of two, each with its permit and the queue. */
export async function costs(bench: Bench): Promise<Row[]> {
  const { client, taskQueue } = bench;
  const resource = `cost-${randomUUID().slice(0, 8)}`;
  const begin = (type: string, args: object[]) =>
    client.workflow.start(type, { workflowId: `${resource}-${randomUUID()}`, taskQueue, args });
  const bare = await begin('bareConsumer', []);
  const child: string = await bare.result();
  const bareCost = await costOf(bench, [bare.workflowId, child]);

  const alone = await begin('parkingConsumer', [{ resource, capacity: 1, holdMs: 0 }]);
  await alone.result();
  const aloneCost = await costOf(bench, [alone.workflowId, permitId({ resource, slot: '0' })]);

  const contended = `${resource}-contended`;
  const first = await begin('parkingConsumer', [{ resource: contended, capacity: 1, holdMs: 3_000 }]);
  await untilCounted(client, permitsQuery(contended), 1);
  const second = await begin('parkingConsumer', [{ resource: contended, capacity: 1, holdMs: 0 }]);
  await Promise.all([first.result(), second.result()]);
  const secondCost = await costOf(bench, [
    second.workflowId,
    permitId({ resource: contended, slot: '0' }),
    queueId(contended),
  ]);
  const beside: [string, number] = ['bare child', bareCost.events];
  const actions: [string, number] = ['bare child', bareCost.actions];
  return [
    row('a hold, nobody waits: events', beside, aloneCost.events, 'events'),
    row('… Cloud Actions', actions, aloneCost.actions, 'actions'),
    row('a hold after a wait, and its queue: events', beside, secondCost.events, 'events'),
    row('… Cloud Actions', actions, secondCost.actions, 'actions'),
  ];
}

/** What these Workflows have written since then, in their latest runs and those that these continue. */
async function costOf({ client }: Bench, ids: string[], sinceMs = 0): Promise<Cost> {
  const sum: Cost = { events: 0, actions: 0 };
  for (const id of ids) {
    let runId: string | undefined;
    do {
      const events: Event[] = (await client.workflow.getHandle(id, runId).fetchHistory()).events ?? [];
      const recent = events.filter(({ eventTime }) => (optionalTsToMs(eventTime) ?? 0) >= sinceMs);
      sum.events += recent.length;
      sum.actions += recent.filter((event) => ACTIONS.some((kind) => event[kind])).length;
      const isWhole = recent.length === events.length;
      runId = (isWhole && events[0]?.workflowExecutionStartedEventAttributes?.continuedExecutionRunId) || undefined;
    } while (runId);
  }
  return sum;
}
