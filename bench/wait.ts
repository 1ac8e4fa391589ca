import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import Table from 'cli-table3';
import { Argument, Command } from 'commander';
import { permitId, queueId } from '@/shared/permit-id';
import { QUEUE_VIEW, type QueueView } from '@/shared/protocol';
import { mostAtOnce, permitsQuery, readHoldIntervals } from '../scripts/support/holder-intervals';
import { contend, type Load, type Outcome } from './contend';
import { type Bench, median, ms, quantile, untilCounted, withBench } from './support';

const ROUNDS = 3;

/** So many consumers at once, or one wait of ten minutes. */
const LOADS = ['100', '30', '1000', 'long'];

/** Both ways in turn, some rounds of it: one alone says little on a busy machine. */
async function compare(bench: Bench, title: string, consumers: number, input: Load) {
  console.log(`\n${title}, ${ROUNDS} rounds`);
  const parking: Outcome[] = [];
  const apart: Outcome[] = [];
  const polling: Outcome[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    parking.push(await contend(bench, 'parkingConsumer', consumers, input));
    apart.push(await contend(bench, 'parkingConsumer', consumers, { ...input, permitQueue: bench.permitQueue }));
    polling.push(await contend(bench, 'pollingConsumer', consumers, input));
  }
  const table = new Table({ head: ['', 'parking', '… permits apart', 'polling (1 s)', 'ratio', '… apart'] });
  const row = (name: string, measure: (rounds: Outcome[]) => number, show: (value: number) => string) =>
    table.push([
      name,
      ...[parking, apart, polling].map((rounds) => show(measure(rounds))),
      ...[parking, apart].map((rounds) => (measure(polling) / measure(rounds)).toFixed(2)),
    ]);
  const gaps = (rounds: Outcome[]) => rounds.flatMap(({ gapsMs }) => gapsMs);
  row('makespan, median', (rounds) => median(rounds.map(({ makespanMs }) => makespanMs)), ms);
  row('history events, all Workflows, median', (rounds) => median(rounds.map(({ events }) => events)), String);
  row('hand-off, median', (rounds) => median(gaps(rounds)), ms);
  row('hand-off, 95th percentile', (rounds) => quantile(gaps(rounds), 0.95), ms);
  row('longest idle slot while somebody waited', (rounds) => Math.max(...gaps(rounds)), ms);
  row('… of a round, median', (rounds) => median(rounds.map(({ gapsMs }) => Math.max(...gapsMs))), ms);
  console.log(table.toString());
}

/** Many waiters behind a pool that is held open: parked, then all served, in order. */
async function crowd(bench: Bench, waiters: number, capacity: number): Promise<void> {
  console.log(`\n${waiters} waiters on capacity ${capacity}, held open until all are parked`);
  const resource = `crowd-${randomUUID().slice(0, 8)}`;
  const start = (holdMs: number) =>
    bench.client.workflow.start('parkingConsumer', {
      workflowId: `${resource}-${randomUUID()}`,
      taskQueue: bench.taskQueue,
      args: [{ resource, capacity, holdMs, fair: true }],
    });
  const holders = await Promise.all(Array.from({ length: capacity }, () => start(600_000)));
  await untilCounted(bench.client, permitsQuery(resource), capacity);
  const startedMs = Date.now();
  const handles: Awaited<ReturnType<typeof start>>[] = [];
  for (let lane = 0; lane < waiters; lane += 50) {
    handles.push(...(await Promise.all(Array.from({ length: Math.min(50, waiters - lane) }, () => start(0)))));
  }
  const queue = bench.client.workflow.getHandle(queueId(resource));
  let view: QueueView;
  do {
    await delay(500);
    view = await queue.query<QueueView>(QUEUE_VIEW).catch(() => ({ tickets: [], slots: [], shares: [] }));
  } while (view.tickets.length < waiters);
  const parkedMs = Date.now();
  const rssMb = process.memoryUsage().rss / 1e6;
  await Promise.all(holders.map((holder) => holder.cancel()));
  await Promise.all(handles.map((handle) => handle.result()));
  const servedMs = Date.now();

  const due = [...view.tickets].sort((a, b) => a.sinceMs - b.sinceMs).map(({ waiter }) => waiter.workflowId);
  await untilCounted(bench.client, `${permitsQuery(resource)} AND ExecutionStatus != "Running"`, waiters + capacity);
  const holds = (await readHoldIntervals(bench.client, resource)).sort((a, b) => a.fromMs - b.fromMs);
  const served = holds.map(({ holder }) => holder).filter((holder) => due.includes(holder));
  const place = new Map(due.map((id, index) => [id, index]));
  const displaced = Math.max(...served.map((id, index) => Math.abs((place.get(id) ?? 0) - index)));
  const runs: number[] = [];
  for await (const run of bench.client.workflow.list({ query: `WorkflowId = "${queue.workflowId}"` })) {
    runs.push((await bench.client.workflow.getHandle(run.workflowId, run.runId).describe()).historyLength ?? 0);
  }
  const table = new Table();
  table.push(
    ['parked in', ms(parkedMs - startedMs)],
    ['served in', `${ms(servedMs - parkedMs)} (${((servedMs - parkedMs) / waiters).toFixed(1)} ms each)`],
    ['served, none lost', `${new Set(served).size} of ${waiters}`],
    ['furthest from its place in line (slots race: up to the capacity and a little)', displaced],
    ['most permits at once', mostAtOnce(holds)],
    ["the queue's runs, events each", runs.join(', ')],
    ['the queue handed on', `${JSON.stringify(view).length} bytes for ${view.tickets.length} tickets`],
    ['memory of this process, the worker in it', `${rssMb.toFixed(0)} MB`],
  );
  console.log(table.toString());
}

/** What a wait of ten real minutes writes. */
async function longWait(bench: Bench): Promise<void> {
  const resource = `long-${randomUUID().slice(0, 8)}`;
  const start = () =>
    bench.client.workflow.start('parkingConsumer', {
      workflowId: `${resource}-${randomUUID()}`,
      taskQueue: bench.taskQueue,
      args: [{ resource, capacity: 1, holdMs: 3_600_000 }],
    });
  const holder = await start();
  await untilCounted(bench.client, permitsQuery(resource), 1);
  const waiter = await start();
  await delay(10 * 60_000);
  const eventsIn = async (handle: { describe(): Promise<{ historyLength?: number }> }) =>
    (await handle.describe()).historyLength ?? 0;
  console.log(`\nA wait of ten minutes: ${await eventsIn(waiter)} events in the waiter`);
  console.log(`${await eventsIn(bench.client.workflow.getHandle(queueId(resource)))} in its queue`);
  const permit = bench.client.workflow.getHandle(permitId({ resource, slot: '0' }));
  console.log(`${await eventsIn(permit)} in the permit waited for, its own renewals included`);
  await Promise.all([waiter.cancel(), holder.cancel()]);
  await Promise.allSettled([waiter.result(), holder.result()]);
}

/** `pnpm bench:wait`: parking beside polling with 1 s back-off, in one run on one server. */
async function main(): Promise<void> {
  const [only, polls] = new Command('bench:wait')
    .addArgument(new Argument('[load]', 'what to measure; all but `long`, if none is named').choices(LOADS))
    .argument('[polls]', 'how many Workflow Tasks the worker asks for at a time')
    .parse().args;
  await withBench(
    async (bench) => {
      await contend(bench, 'parkingConsumer', 4, { capacity: 2, holdMs: 10 }); // warm
      if (!only || only === '100') {
        await compare(bench, '100 consumers, capacity 10, 500 ms each', 100, { capacity: 10, holdMs: 500 });
      }
      if (!only || only === '30') {
        await compare(bench, '30 consumers, capacity 3, 100 ms each', 30, { capacity: 3, holdMs: 100 });
      }
      if (!only || only === '1000') await crowd(bench, 1_000, 10);
      if (only === 'long') await longWait(bench);
    },
    polls ? Number(polls) : undefined,
  );
}

main().catch((error: unknown) => {
  console.error(error);
  process.exitCode = 1;
});
