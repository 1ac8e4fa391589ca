import Table from 'cli-table3';
import { DeadlineHeap, type Due } from '@/client/pool/caller-line';
import { probeAfterMs } from '@/workflows/queue/queue-command';
import { quantile } from './support';

/**
 * `pnpm bench:scale`: a simulation. 100,000 waiters in the queues of 10,000 resources of one slot each, on servers of several
 * speeds. It has no server: it takes the costs that the other commands have measured, and the library's own rule for looks.
 */
const RESOURCES = 10_000;
/** Of each resource, behind a holder. */
const WAITERS = 10;

/** History events, which is what a server's work grows with (docs/limits.md, "What a wait costs"). */
const EVENTS = { handOff: 66, look: 14 };
/** A hand-off's four Workflow Tasks on an idle server (`pnpm bench:client`). */
const HAND_OFF_MS = 80;
/** 300 consumers on 10 slots, 66 events each, ran at 13.5 a second on 2 cores with server and worker. */
const EVENTS_PER_SECOND = 900;

const HOLDS_MS = [1_000, 10_000, 60_000, 600_000];
const TIMES = [1, 10, 100];

interface Outcome {
  handOffsMs: number[];
  madeMs: number;
  looks: number;
  /** The share of the time that slots were held while somebody waited. */
  inUse: number;
}

interface Step extends Due {
  resource: number;
  what: 'release' | 'look';
  /** The hold that it belongs to: a look at an earlier one is void. */
  hold: number;
}

/** The server does one thing after the other, each as long as its events take. */
function simulate(holdMs: number, eventsPerMs: number): Outcome {
  const heap = new DeadlineHeap<Step>();
  const add = (step: Omit<Step, 'heapIndex'>) => heap.add({ ...step, heapIndex: -1 });
  const holds = new Uint8Array(RESOURCES);
  const sinceMs = new Float64Array(RESOURCES);
  const handOffsMs: number[] = [];
  let [serverFreeMs, looks, lastMs, heldMs] = [0, 0, 0, 0];
  const work = (nowMs: number, events: number) => {
    serverFreeMs = Math.max(serverFreeMs, nowMs) + events / eventsPerMs;
    return serverFreeMs;
  };
  const hold = (resource: number, fromMs: number, forMs: number) => {
    sinceMs[resource] = fromMs;
    heldMs += forMs;
    const of = { resource, hold: holds[resource] ?? 0 };
    add({ deadlineMs: fromMs + forMs, what: 'release', ...of });
    add({ deadlineMs: fromMs + probeAfterMs(0, 1), what: 'look', ...of });
  };
  // They do not begin in step: the first holds end at any time of a hold.
  for (let resource = 0; resource < RESOURCES; resource++) hold(resource, 0, (holdMs * (resource + 1)) / RESOURCES);
  for (let due = heap.first; due; due = heap.first) {
    heap.delete(due);
    const { deadlineMs: atMs, resource, what } = due;
    if (due.hold !== holds[resource]) continue;
    if (what === 'look') {
      looks++;
      const answeredMs = work(atMs, EVENTS.look);
      add({ ...due, deadlineMs: answeredMs + probeAfterMs(answeredMs - (sinceMs[resource] ?? 0), 1) });
      continue;
    }
    const gotMs = work(atMs, EVENTS.handOff) + HAND_OFF_MS;
    handOffsMs.push(gotMs - atMs);
    lastMs = gotMs;
    holds[resource] = due.hold + 1;
    if (due.hold + 1 < WAITERS) hold(resource, gotMs, holdMs);
  }
  const idleMs = handOffsMs.reduce((sum, ms) => sum + ms, 0);
  return { handOffsMs, madeMs: lastMs, looks, inUse: heldMs / (heldMs + idleMs) };
}

function seconds(ms: number): string {
  return ms < 10_000 ? `${(ms / 1_000).toFixed(2)} s` : `${Math.round(ms / 1_000)} s`;
}

const table = new Table({
  head: ['hold', 'events/s', 'hand-off, median', '99 %', 'slots in use', 'all served in', 'at best', 'looks a hold'],
  style: { head: [], border: [] },
});
for (const holdMs of HOLDS_MS) {
  for (const times of TIMES) {
    const { handOffsMs, madeMs, looks, inUse } = simulate(holdMs, (EVENTS_PER_SECOND * times) / 1_000);
    table.push([
      seconds(holdMs),
      EVENTS_PER_SECOND * times,
      seconds(quantile(handOffsMs, 0.5)),
      seconds(quantile(handOffsMs, 0.99)),
      `${(100 * inUse).toFixed(0)} %`,
      seconds(madeMs),
      seconds(holdMs * WAITERS),
      (looks / handOffsMs.length).toFixed(1),
    ]);
  }
}
console.log(`${RESOURCES * WAITERS} waiters, ${RESOURCES} resources`);
console.log(table.toString());
