import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { queueId } from '../../../src/shared/permit-id';
import { ENQUEUE } from '../../../src/shared/protocol';
import { startHolder } from '../../support/holders';
import { send } from '../../support/strangers';
import { assertSafe, queueView, until, useTemporal } from '../../support/temporal';
import * as workflows from '../../support/workflows';

const temporal = useTemporal();

/** Tickets a second. */
const RATE = 60;
/** Until this many runs have ended, but no longer than the limit: a slow machine fills a run more slowly. */
const HAND_OVERS = 2;
const RUNS_AT_LEAST_MS = 20_000;
const RUNS_AT_MOST_MS = 5 * 60_000;
/** The longest that nobody may get a turn, although somebody always waits: then the waiters' own look would serve them. */
const MOST_STALL_MS = 30_000;

/** A worker must replay a run within 10 seconds. */
const MOST_EVENTS = 1_500;

/** Why a Workflow Task failed: a signal came while it was under way, and it ended the run. */
const UNHANDLED_COMMAND = 1;

test(`a queue that gets ${RATE} tickets a second continues as new without a stall`, async () => {
  const resource = temporal.resource();
  const semaphore = { capacity: 1 };
  let isOver = false;
  const serve = async () => {
    while (!isOver) await (await startHolder(temporal, { resource, semaphore, holdMs: 0 })).result();
  };
  const consumers = Promise.all(Array.from({ length: 6 }, serve));
  await until(() => queueView(temporal.client, resource));
  const over = handOvers(resource).then(() => {
    isOver = true;
  });
  // They want another slot, which is held, so they only wait; their tickets come again and again.
  const tickets = Array.from({ length: 200 }, () => ({
    id: randomUUID(),
    waiter: { workflowId: `nobody-${randomUUID()}`, runId: randomUUID() },
    slots: ['held'],
    sinceMs: Date.now(),
  }));
  const held = await startHolder(temporal, { resource, semaphore: { slots: ['held'] } });
  let sent = 0;
  for (const startMs = Date.now(); !isOver; await delay(10)) {
    const due = Math.floor(((Date.now() - startMs) / 1_000) * RATE);
    const batch = [];
    for (; sent < due; sent++) {
      batch.push(send(temporal.client, queueId(resource), ENQUEUE, tickets[sent % tickets.length]));
    }
    await Promise.all(batch);
  }
  await over;
  await consumers;
  await held.signal(workflows.finish);
  await held.result();
  await temporal.client.workflow.getHandle(queueId(resource)).terminate(); // those tickets are nobody's

  const holds = (await assertSafe(temporal.client, resource, 2)).filter(({ slot }) => slot === '0');
  const stalls = stallsOf(holds.map(({ fromMs }) => fromMs));
  const runs = await readRuns(resource);
  // What the machine adds shows in those at which no run ended.
  const [handOver, elsewhere] = [true, false].map((isHandOver) =>
    longest(stalls.filter((stall) => runs.endsMs.some((ms) => isWithin(ms, stall)) === isHandOver)),
  );
  const { endsMs: ends, ...seen } = runs;
  console.log(
    JSON.stringify({ rate: RATE, sent, served: holds.length, handOvers: ends.length, ...seen, handOver, elsewhere }),
  );
  assert.ok(ends.length >= HAND_OVERS, `the queue continued as new only ${ends.length} times`);
  const stallMs = handOver?.ms ?? 0;
  assert.ok(seen.longestRun <= MOST_EVENTS, `a run of ${seen.longestRun} events`);
  assert.ok(stallMs <= MOST_STALL_MS, `nobody had a turn for ${stallMs} ms when the queue continued as new`);
});

/** Resolves when the test may end. */
async function handOvers(resource: string): Promise<void> {
  const [startMs, runIds] = [Date.now(), new Set<string>()];
  for (let atMs = 0; atMs < RUNS_AT_MOST_MS; atMs = Date.now() - startMs) {
    runIds.add((await temporal.client.workflow.getHandle(queueId(resource)).describe()).runId);
    if (runIds.size > HAND_OVERS && atMs >= RUNS_AT_LEAST_MS) return;
    await delay(1_000);
  }
}

interface Stall {
  fromMs: number;
  toMs: number;
}

/** The times between two holds. */
function stallsOf(fromMs: number[]): Stall[] {
  const sorted = fromMs.sort((a, b) => a - b);
  return sorted.slice(1).map((toMs, n) => ({ fromMs: sorted[n] as number, toMs }));
}

function isWithin(ms: number, { fromMs, toMs }: Stall): boolean {
  return fromMs <= ms && ms <= toMs;
}

function longest(stalls: Stall[]): { count: number; ms: number; medianMs: number } {
  const lengths = stalls.map(({ fromMs, toMs }) => Math.round(toMs - fromMs)).sort((a, b) => a - b);
  return { count: lengths.length, ms: lengths.at(-1) ?? 0, medianMs: lengths[Math.floor(lengths.length / 2)] ?? 0 };
}

/** When the queue continued as new, how often the server failed that because a signal came, and the longest run in events. */
async function readRuns(resource: string): Promise<{ endsMs: number[]; failedFirst: number; longestRun: number }> {
  const seen = { endsMs: [] as number[], failedFirst: 0, longestRun: 0 };
  for await (const run of temporal.client.workflow.list({ query: `WorkflowId = "${queueId(resource)}"` })) {
    const { events } = await temporal.client.workflow.getHandle(run.workflowId, run.runId).fetchHistory();
    seen.longestRun = Math.max(seen.longestRun, events?.length ?? 0);
    for (const { eventTime, ...event } of events ?? []) {
      if (event.workflowTaskFailedEventAttributes?.cause === UNHANDLED_COMMAND) seen.failedFirst++;
      if (!event.workflowExecutionContinuedAsNewEventAttributes) continue;
      seen.endsMs.push(Number(eventTime?.seconds) * 1_000 + Number(eventTime?.nanos) / 1e6);
    }
  }
  return seen;
}
