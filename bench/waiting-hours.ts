import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { permitId, queueId } from '@/shared/permit-id';
import { eventsOfRuns, timeMs } from '../scripts/support/history-events';
import { permitsQuery } from '../scripts/support/holder-intervals';
import type { Consumer, Load } from './contend';
import { type Row, row } from './report';
import { type Bench, untilCounted } from './support';

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
    row('an hour of waiting, alone: events', ['polling each second', polling], one, 'events', { atMost: 0.01 }),
    row('… each of ten waiters: events', ['polling each second', polling], ten, 'events', { atMost: 0.01 }),
  ]);
}

async function perHour(bench: Bench, type: Consumer, waiters: number): Promise<number> {
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
  const events = await eventsSince(bench, ids, fromMs);
  for (const handle of [...waiting, holder]) await handle.cancel();
  return (events * HOUR_MS) / windowMs / waiters;
}

/** What these Workflows have written since then. */
async function eventsSince({ client }: Bench, ids: string[], sinceMs: number): Promise<number> {
  const events = (await Promise.all(ids.map((id) => eventsOfRuns(client, id)))).flat();
  return events.filter((event) => timeMs(event) >= sinceMs).length;
}
