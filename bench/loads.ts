import { randomUUID } from 'node:crypto';
import { contend, type Outcome } from './contend';
import { type Row, row } from './report';
import type { Bench } from './support';

const CONSUMERS = 300;

/** Holds of no length: how many a second, beside the same number of bare children without a limit. */
export async function throughput(bench: Bench): Promise<Row[]> {
  const ours = await contend(bench, 'parkingConsumer', CONSUMERS, { capacity: 10, holdMs: 0 });
  const startedMs = Date.now();
  const { client, taskQueue } = bench;
  const start = () => client.workflow.start('bareConsumer', { workflowId: `bare-${randomUUID()}`, taskQueue });
  const handles = await Promise.all(Array.from({ length: CONSUMERS }, start));
  await Promise.all(handles.map((handle) => handle.result()));
  const bareMs = Date.now() - startedMs;
  let events = 0;
  for (const handle of handles) events += (await handle.describe()).historyLength ?? 0;
  const EVENTS_OF_CHILD = 10;
  const perSecond = (ms: number) => CONSUMERS / (ms / 1_000);
  return [
    row(
      `${CONSUMERS} holds of 0 s on 10 slots`,
      [`${CONSUMERS} bare children`, perSecond(bareMs)],
      perSecond(ours.makespanMs),
      'a second',
      { atLeast: 0.7 },
    ),
    row(
      '… history events of each',
      ['bare child', events / CONSUMERS + EVENTS_OF_CHILD],
      ours.events / CONSUMERS,
      'events',
    ),
  ];
}

/** Holds of one second: how much of the time the slots are in use while somebody waits; and the whole beside the ideal. */
export async function makespans(bench: Bench): Promise<Row[]> {
  const rows: Row[] = [];
  for (const [consumers, capacity] of [
    [30, 3],
    [100, 10],
    [100, 50],
    [300, 30],
  ] as const) {
    const load = { capacity, holdMs: 1_000, permitQueue: bench.permitQueue };
    const outcome = await contend(bench, 'parkingConsumer', consumers, load);
    const title = `${consumers} holds of 1 s on ${capacity}`;
    const idealMs = (consumers / capacity) * 1_000;
    rows.push(row(`${title}: all done`, ['ideal', idealMs], outcome.makespanMs, 'ms'));
    const wanted = consumers === 100 && capacity === 10 ? { atLeast: 0.9 } : undefined;
    rows.push(
      row('… slots in use while somebody waits', ['ideal', 1], inUse(outcome, capacity), 'of the ideal', wanted),
    );
  }
  return rows;
}

/** From the moment when all slots are held to that when the last waiter has its permit. */
function inUse({ holds }: Outcome, capacity: number): number {
  const starts = holds.map(({ fromMs }) => fromMs).sort((a, b) => a - b);
  const [fromMs = 0, toMs = 0] = [starts[capacity - 1], starts.at(-1)];
  const heldMs = holds.reduce(
    (sum, hold) => sum + Math.max(0, Math.min(hold.toMs, toMs) - Math.max(hold.fromMs, fromMs)),
    0,
  );
  return heldMs / (capacity * (toMs - fromMs));
}
