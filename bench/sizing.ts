import { type ChildProcess, fork } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import type { Client } from '@temporalio/client';
import Table from 'cli-table3';
import { Command } from 'commander';
import { mapConcurrently } from '@/client/server/map-concurrently';
import { diesWithUs } from '../scripts/support/dies-with-us';
import { startServer, type TemporalServer } from '../scripts/support/temporal-server';
import { SemaphoreClient } from '../src/client';
import { PERMIT_WORKFLOW, RELEASE } from '../src/shared/protocol';
import { ms, quantile } from './support';

/**
 * `pnpm bench:sizing`: what one permit worker, in a process of its own, needs for permits that are held and for hand-offs; and what a
 * resource with many callers costs the others on its worker.
 */
const HELD = [1_000, 5_000];
/** Of one resource: the most that it may have. Half of it stays free, so that an acquire seldom meets a taken slot. */
const CAPACITY = 1_000;
/** Longer than the run: nothing but the permits themselves costs anything while they are held. */
const LEASE_MS = 3_600_000;

/** Hand-offs a second. The first is also what the resources beside the crowd have. */
const RATES = [3, 5, 10, 20] as const;
/** Each of one slot, with two callers in turn. */
const RESOURCES = 20;
/** Long enough for some 300 hand-offs at the lowest rate: fewer have no 99 %. */
const MEASURE_MS = 100_000;
const WARM_MS = 5_000;
const IDLE_MS = 10_000;

/** Of the crowded resource. */
const CROWD = { capacity: 10, callers: 100 };
/**
 * How long the crowd holds in the mean: so that 2 hand-offs a second are due, which leaves the cores half idle; or for no time, so that the
 * machine does all that it can. With the same time for all, they would release in step.
 */
const CROWD_HOLDS_MS = [5_000, 0];

/** The kernel's clock ticks, in which it counts a process's CPU time. */
const TICK_MS = 10;
const MIB = 1024 * 1024;

/** A permit worker in a process of its own. */
class MeasuredWorker {
  private constructor(
    private readonly child: ChildProcess,
    readonly taskQueue: string,
  ) {}

  static async start({ address }: TemporalServer): Promise<MeasuredWorker> {
    const taskQueue = `sizing-${randomUUID()}`;
    const child = fork(require.resolve('./sizing-worker'), [address, taskQueue]);
    diesWithUs(child);
    await once(child, 'message');
    return new MeasuredWorker(child, taskQueue);
  }

  get cpuMs(): number {
    const fields = readFileSync(`/proc/${this.child.pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
    return (Number(fields[11]) + Number(fields[12])) * TICK_MS;
  }

  get residentMib(): number {
    const [, kib] = /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${this.child.pid}/status`, 'utf8')) ?? [];
    return (Number(kib) * 1024) / MIB;
  }

  async stop(): Promise<void> {
    const ended = once(this.child, 'exit');
    this.child.kill('SIGKILL');
    await ended;
  }
}

/** Holds more and more permits at once. Their clients hand them over to nobody: so they neither renew nor watch them. */
async function held(env: TemporalServer): Promise<void> {
  const worker = await MeasuredWorker.start(env);
  const mib = worker.residentMib;
  let before = 0;
  for (const permits of HELD) {
    const [startedMs, cpuMs] = [performance.now(), worker.cpuMs];
    const pools = Array.from({ length: Math.ceil((permits - before) / (CAPACITY / 2)) }, () => {
      const options = { capacity: CAPACITY, lease: LEASE_MS, taskQueue: worker.taskQueue };
      return new SemaphoreClient(env.client, `held-${randomUUID()}`, options);
    });
    const all = Array.from({ length: permits - before }, (_, nth) => pools[nth % pools.length] as SemaphoreClient);
    await mapConcurrently(all, async (pool) => (await pool.acquire()).detach());
    const tookMs = performance.now() - startedMs;
    await delay(WARM_MS);
    const [startCpuMs, idleFromMs, idleCpuMs] = [worker.cpuMs - cpuMs, performance.now(), worker.cpuMs];
    await delay(IDLE_MS);
    const idle = (worker.cpuMs - idleCpuMs) / (performance.now() - idleFromMs);
    const added = worker.residentMib - mib;
    HOLDS.push([
      permits,
      `${(all.length / (tookMs / 1_000)).toFixed(0)}`,
      `${(startCpuMs / all.length).toFixed(1)} ms`,
      `${(100 * idle).toFixed(1)} %`,
      `${added.toFixed(0)} MiB`,
      `${(added / permits).toFixed(2)} MiB`,
    ]);
    before = permits;
  }
  await worker.stop();
}

interface HandOffs {
  tookMs: number[];
  perSecond: number;
  cpu: number;
  mib: number;
}

/** Uses one resource in turn, for so long each, until it is stopped. @param report hears how long each hand-off took */
type Turns = (
  client: Client,
  taskQueue: string,
  holdMs: number,
  stop: AbortSignal,
  report: (tookMs: number) => void,
) => Promise<unknown>;

/** Two callers of a semaphore of one slot. */
const bySemaphore: Turns = (client, taskQueue, holdMs, stop, report) => {
  const semaphore = new SemaphoreClient(client, `quiet-${randomUUID()}`, { capacity: 1, taskQueue });
  let releasedMs: number | undefined;
  const caller = async () => {
    while (!stop.aborted) {
      const permit = await semaphore.acquire();
      if (releasedMs !== undefined) report(performance.now() - releasedMs);
      await delay(holdMs);
      releasedMs = performance.now();
      await permit.release();
    }
  };
  return Promise.all([caller(), caller()]);
};

/** What a hand-off rests on, by hand: one Workflow gets a signal and ends, and the next one starts. */
const byHand: Turns = async (client, taskQueue, holdMs, stop, report) => {
  const workflowId = `by-hand-${randomUUID()}`;
  const start = () =>
    client.workflow.start(PERMIT_WORKFLOW, { workflowId, taskQueue, args: [{ leaseMs: LEASE_MS, holder: {} }] });
  let held = await start();
  while (!stop.aborted) {
    await delay(holdMs);
    const releasedMs = performance.now();
    await held.signal(RELEASE);
    await held.result();
    held = await start();
    report(performance.now() - releasedMs);
  }
  await held.signal(RELEASE);
};

/** Takes turns at several resources, so long that so many hand-offs a second are due. */
async function handOffs(client: Client, worker: MeasuredWorker, rate: number, turns = bySemaphore): Promise<HandOffs> {
  const stop = new AbortController();
  const holdMs = (1_000 * RESOURCES) / rate;
  const tookMs: number[] = [];
  let isMeasured = false;
  const report = (ms: number) => {
    if (isMeasured) tookMs.push(ms);
  };
  const all = Array.from({ length: RESOURCES }, async (_, nth) => {
    await delay((holdMs * nth) / RESOURCES); // they do not release in step
    await turns(client, worker.taskQueue, holdMs, stop.signal, report);
  });
  await delay(WARM_MS + holdMs);
  isMeasured = true;
  const [fromMs, cpuMs] = [performance.now(), worker.cpuMs];
  await delay(MEASURE_MS);
  isMeasured = false;
  const forMs = performance.now() - fromMs;
  const measured = { cpu: (worker.cpuMs - cpuMs) / forMs, mib: worker.residentMib };
  stop.abort();
  await Promise.all(all);
  return { tookMs, perSecond: tookMs.length / (forMs / 1_000), ...measured };
}

/** Many callers of one resource, until the function that this gives is called. */
function crowd(client: Client, { taskQueue }: MeasuredWorker, holdMs: number): () => Promise<number> {
  const stop = new AbortController();
  const { capacity, callers } = CROWD;
  const pool = new SemaphoreClient(client, `crowded-${randomUUID()}`, { capacity, taskQueue });
  let holds = 0;
  const fromMs = performance.now();
  const all = Array.from({ length: callers }, async () => {
    for (; !stop.signal.aborted; holds++) await pool.withPermit(() => delay(2 * holdMs * Math.random()));
  });
  return async () => {
    const perSecond = holds / ((performance.now() - fromMs) / 1_000);
    stop.abort();
    await Promise.all(all);
    return perSecond;
  };
}

const HOLDS = new Table({
  head: ['permits held', 'started a second', 'CPU of each start', 'CPU while held', 'memory', 'of each'],
});
const RATE = new Table({
  head: ['wanted', 'hand-offs a second', 'median', '99 %', '99 % against alone', 'CPU of the worker', 'memory'],
});

function tell(wanted: string, { tookMs, perSecond, cpu, mib }: HandOffs, alone?: HandOffs): void {
  const latest = quantile(tookMs, 0.99);
  RATE.push([
    wanted,
    perSecond.toFixed(1),
    ms(quantile(tookMs, 0.5)),
    ms(latest),
    alone ? `${(latest / quantile(alone.tookMs, 0.99)).toFixed(1)} ×` : '',
    `${(100 * cpu).toFixed(0)} %`,
    `${mib.toFixed(0)} MiB`,
  ]);
}

async function main(): Promise<void> {
  new Command('bench:sizing').description('What a permit worker needs, measured for some 35 minutes.').parse();
  const env = await startServer();
  try {
    const worker = await MeasuredWorker.start(env);
    const [few, ...more] = RATES;
    const quiet = [
      { what: `${few}`, turns: bySemaphore, alone: await handOffs(env.client, worker, few) },
      {
        what: `${few} by hand: signal, end, start`,
        turns: byHand,
        alone: await handOffs(env.client, worker, few, byHand),
      },
    ];
    for (const { what, alone } of quiet) tell(what, alone);
    for (const rate of more) tell(`${rate}`, await handOffs(env.client, worker, rate));
    const other = await MeasuredWorker.start(env);
    for (const holdMs of CROWD_HOLDS_MS) {
      for (const [where, crowded] of [
        ['another worker', other],
        ['this worker', worker],
      ] as const) {
        const end = crowd(env.client, crowded, holdMs);
        const beside: { what: string; measured: HandOffs; alone: HandOffs }[] = [];
        for (const { what, turns, alone } of quiet)
          beside.push({ what, measured: await handOffs(env.client, worker, few, turns), alone });
        const perSecond = (await end()).toFixed(1);
        const those = `${CROWD.callers} callers of one resource on ${where}, who hold for ${ms(holdMs)} in the mean`;
        for (const { what, measured, alone } of beside)
          tell(`${what}, beside ${those} (${perSecond} holds a second)`, measured, alone);
      }
    }
    console.log(RATE.toString());
    await other.stop();
    await worker.stop();
    await held(env);
    console.log(HOLDS.toString());
  } finally {
    await env.teardown();
  }
}

main().catch((error: unknown) => {
  console.error(error);
  process.exitCode = 1;
});
