import { randomUUID } from 'node:crypto';
import { contend, type Load, type Outcome } from './contend';
import { type Row, row } from './report';
import { type Bench, median } from './support';

const CONSUMERS = 300;

/** One round says little: the same code differs by half from one to the next. So each figure is the median of these. */
const ROUNDS = 5;

/** Holds of no length: how many a second, in turn with the same number of bare children without a limit. */
export async function throughput(bench: Bench): Promise<Row[]> {
  const together: Outcome[] = [];
  const apart: Outcome[] = [];
  const bare: { makespanMs: number; events: number }[] = [];
  const load = { capacity: 10, holdMs: 0 };
  const run = (more?: Partial<Load>) => contend(bench, 'parkingConsumer', CONSUMERS, { ...load, ...more });
  const acts = [
    async () => together.push(await run()),
    async () => apart.push(await run({ permitQueue: bench.permitQueue })),
    async () => bare.push(await bareChildren(bench)),
  ];
  for (let round = 0; round < ROUNDS; round++) for (const act of round % 2 ? [...acts].reverse() : acts) await act();
  const perSecond = (runs: { makespanMs: number }[]) =>
    CONSUMERS / (median(runs.map(({ makespanMs }) => makespanMs)) / 1_000);
  const eventsOfEach = (runs: { events: number }[]) => median(runs.map(({ events }) => events)) / CONSUMERS;
  return [
    row(
      `${CONSUMERS} holds of 0 s on 10 slots`,
      [`${CONSUMERS} bare children`, perSecond(bare)],
      perSecond(apart),
      'a second',
      { atLeast: 0.7 },
    ),
    row(
      '… permits on the task queue of the Workflows',
      [`${CONSUMERS} bare children`, perSecond(bare)],
      perSecond(together),
      'a second',
    ),
    row('… history events of each', ['bare child', eventsOfEach(bare)], eventsOfEach(apart), 'events'),
  ];
}

async function bareChildren({ client, taskQueue }: Bench): Promise<{ makespanMs: number; events: number }> {
  const EVENTS_OF_CHILD = 10;
  const startedMs = Date.now();
  const start = () => client.workflow.start('bareConsumer', { workflowId: `bare-${randomUUID()}`, taskQueue });
  const handles = await Promise.all(Array.from({ length: CONSUMERS }, start));
  await Promise.all(handles.map((handle) => handle.result()));
  const makespanMs = Date.now() - startedMs;
  let events = CONSUMERS * EVENTS_OF_CHILD;
  for (const handle of handles) events += (await handle.describe()).historyLength ?? 0;
  return { makespanMs, events };
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
    const outcomes: Outcome[] = [];
    for (let round = 0; round < ROUNDS; round++) {
      outcomes.push(await contend(bench, 'parkingConsumer', consumers, load));
    }
    const title = `${consumers} holds of 1 s on ${capacity}`;
    const idealMs = (consumers / capacity) * 1_000;
    const makespanMs = median(outcomes.map((outcome) => outcome.makespanMs));
    rows.push(row(`${title}: all done`, ['ideal', idealMs], makespanMs, 'ms'));
    const wanted = consumers === 100 && capacity === 10 ? { atLeast: 0.9 } : undefined;
    const used = median(outcomes.map((outcome) => inUse(outcome, capacity)));
    rows.push(row('… slots in use while somebody waits', ['ideal', 1], used, 'of the ideal', wanted));
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
