import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { type HoldInterval, overlaps, type ReportedHold } from '../../../scripts/support/holder-intervals';
import { type Permit, SemaphoreClient, withPermits } from '../../../src/client';
import { accumulatorResource } from '../../../src/shared/key-names';
import { queueId } from '../../../src/shared/permit-id';
import { CliProcess } from '../../support/cli-process';
import { startOptions } from '../../support/holders';
import { assertNoPermitLeft, assertSafe, useTemporal } from '../../support/temporal';
import * as workflows from '../../support/workflows';

const temporal = useTemporal();

const HOLD_MS = 50;

function clientOf(resource: string, capacity: number): SemaphoreClient {
  return new SemaphoreClient(temporal.client, resource, { capacity, taskQueue: temporal.taskQueue, lease: '1 minute' });
}

/** Holds the permits for a moment, and reports when. */
async function held(permits: readonly Permit[], reports: Map<string, ReportedHold[]>): Promise<void> {
  const fromMs = Date.now();
  await delay(HOLD_MS);
  const toMs = Date.now();
  for (const { resource, runId } of permits) reports.get(resource)?.push({ runId, fromMs, toMs });
}

test('25 s: 30 callers of [a, b], 30 of [b, a] and 10 single ones neither block each other nor starve', async () => {
  const [a, b] = [temporal.resource('a'), temporal.resource('b')];
  const [one, other] = [clientOf(a, 3), clientOf(b, 4)];
  const reports = new Map<string, ReportedHold[]>([a, b].map((resource) => [resource, []]));
  const untilMs = Date.now() + 25_000;
  const served: number[] = [];
  let longestMs = 0;
  const loop = async (step: () => Promise<void>) => {
    let count = 0;
    do {
      const sinceMs = Date.now();
      await step();
      longestMs = Math.max(longestMs, Date.now() - sinceMs);
      count++;
    } while (Date.now() < untilMs);
    served.push(count);
  };
  const pair = (first: SemaphoreClient, second: SemaphoreClient) =>
    loop(async () => await withPermits([first, second], async (permits) => await held(permits, reports)));
  const single = (pool: SemaphoreClient) =>
    loop(async () => await pool.withPermit(async (permit) => await held([permit], reports)));
  await Promise.all([
    ...Array.from({ length: 30 }, () => pair(one, other)),
    ...Array.from({ length: 30 }, () => pair(other, one)),
    ...Array.from({ length: 5 }, () => single(one)),
    ...Array.from({ length: 5 }, () => single(other)),
  ]);
  const total = served.reduce((sum, count) => sum + count);
  console.log(JSON.stringify({ callers: served.length, holds: total, longestMs, fewest: Math.min(...served) }));
  assert.equal(served.length, 70);
  await assertSafe(temporal.client, a, 3, reports.get(a));
  await assertSafe(temporal.client, b, 4, reports.get(b));
});

test('60 callers of 1 to 4 permits on capacity 4, a third of them aborted: all others are served, and none is left', async () => {
  const resource = temporal.resource('many');
  const pool = clientOf(resource, 4);
  const reports = new Map<string, ReportedHold[]>([[resource, []]]);
  const longestMs: Record<number, number> = {};
  let aborted = 0;
  const caller = async (index: number) => {
    const size = 1 + (index % 4);
    const stop = new AbortController();
    if (index % 3 === 0) setTimeout(() => stop.abort(), 500 + index * 100).unref();
    const sinceMs = Date.now();
    try {
      await withPermits(
        [{ of: pool, permits: size }],
        async ([permits]) => {
          assert.equal(new Set(permits.map(({ slot }) => slot)).size, size);
          longestMs[size] = Math.max(longestMs[size] ?? 0, Date.now() - sinceMs);
          await held(permits, reports);
        },
        { signal: stop.signal },
      );
    } catch (error) {
      if (!stop.signal.aborted) throw error;
      aborted++;
    }
  };
  await Promise.all(Array.from({ length: 60 }, (_, index) => caller(index)));
  console.log(JSON.stringify({ longestMs, aborted }));
  await assertNoPermitLeft(temporal.client, accumulatorResource(resource));
  await assertSafe(temporal.client, resource, 4, reports.get(resource));
});

/** So that one who is never served is told. */
const BOUNDED = { timeout: 600_000 };

interface Wait {
  size: number;
  fromMs: number;
  toMs: number;
}

/** The longest wait of each size. */
function longest(waits: readonly Wait[]): Record<number, number> {
  const most: Record<number, number> = {};
  for (const { size, fromMs, toMs } of waits) most[size] = Math.max(most[size] ?? 0, toMs - fromMs);
  return most;
}

/** Kills a permit worker now and then, and terminates the queues. At least one worker is up. */
async function disturb(resource: string, taskQueue: string, signal: AbortSignal) {
  const startOne = async () => {
    const worker = new CliProcess(['worker', '--task-queue', taskQueue, '--address', temporal.env.address]);
    await worker.says(/(permits run) on task queue/);
    return worker;
  };
  const workers = [await startOne(), await startOne()];
  const done = { workersKilled: 0, queuesTerminated: 0 };
  const often = async (everyMs: number, step: () => Promise<void>) => {
    while (!signal.aborted) {
      await delay(everyMs, undefined, { signal }).catch(() => undefined);
      if (!signal.aborted) await step();
    }
  };
  const kills = often(12_000, async () => {
    const victim = workers.shift();
    workers.push(await startOne());
    victim?.signal('SIGKILL');
    await victim?.exit;
    done.workersKilled++;
  });
  const terminations = often(9_000, async () => {
    const pool = done.queuesTerminated % 2 === 0 ? resource : accumulatorResource(resource);
    await temporal.client.workflow
      .getHandle(queueId(pool))
      .terminate('soak')
      .catch(() => undefined);
    done.queuesTerminated++;
  });
  return {
    done,
    async end(withWorkers = true) {
      await Promise.all([kills, terminations]);
      if (!withWorkers) return;
      for (const worker of workers) {
        worker.signal('SIGTERM');
        await worker.exit;
      }
    },
  };
}

/** When each Workflow that wanted several had some of them, and not all: only one at a time may. */
function accumulations(holds: readonly HoldInterval[], sizes: ReadonlyMap<string, number>): HoldInterval[] {
  return [...sizes].flatMap(([holder, size]) => {
    const own = holds.filter((hold) => hold.holder === holder);
    const first = own.reduce((a, b) => (b.fromMs < a.fromMs ? b : a), own[0] as HoldInterval);
    if (size === 1 || !first) return [];
    const hasAll = own.length === size;
    const toMs = hasAll ? Math.max(...own.map(({ fromMs }) => fromMs)) : Math.min(...own.map((hold) => hold.toMs));
    return [{ ...first, slot: 'accumulator', toMs: Math.max(first.fromMs, toMs) }];
  });
}

test(
  '60 clients and Workflows of 1 to 4 permits on capacity 4, some cancelled, workers and queues killed: all or none, all served, none left',
  BOUNDED,
  async (t) => {
    const resource = temporal.resource('many');
    const taskQueue = `${temporal.taskQueue}-permits`;
    // A waiter that a queue has answered asks again after 20 to 25 times as long: so it notices that the queue is gone.
    const semaphore = { capacity: 4, taskQueue, recheckAfter: '500ms' } as const;
    const pool = new SemaphoreClient(temporal.client, resource, semaphore);
    const reports: ReportedHold[] = [];
    const waits: Wait[] = [];
    const sizes = new Map<string, number>();
    let [cancelled, terminated] = [0, 0];

    const client = async (size: number, stopAfterMs: number) => {
      const stop = new AbortController();
      if (stopAfterMs > 0) setTimeout(() => stop.abort(), stopAfterMs).unref();
      const fromMs = Date.now();
      try {
        await withPermits(
          [{ of: pool, permits: size }],
          async ([permits]) => {
            waits.push({ size, fromMs, toMs: Date.now() });
            assert.equal(new Set(permits.map(({ slot }) => slot)).size, size);
            const holds = permits.map(({ runId }): ReportedHold => ({ runId, fromMs: Date.now() }));
            await delay(HOLD_MS);
            for (const hold of holds) reports.push({ ...hold, toMs: Date.now() });
          },
          { signal: stop.signal },
        );
      } catch (error) {
        if (!stop.signal.aborted) throw error;
        cancelled++;
      }
    };
    const workflow = async (size: number, stopAfterMs: number, how: 'cancel' | 'terminate') => {
      const options = startOptions(temporal, 'many');
      sizes.set(options.workflowId, size);
      const input: workflows.HolderInput = { resource, semaphore, holdMs: HOLD_MS };
      const fromMs = Date.now();
      const handle = await temporal.client.workflow.start(workflows.manyHolder, { ...options, args: [input, size] });
      let isStopped: Promise<boolean> | false = false;
      const stop = () => {
        isStopped = handle[how]().then(
          () => true,
          () => false, // it has ended
        );
      };
      if (stopAfterMs > 0) setTimeout(stop, stopAfterMs).unref();
      try {
        const slots = await handle.result();
        assert.equal(new Set(slots).size, size);
        waits.push({ size, fromMs, toMs: Date.now() - HOLD_MS });
      } catch (error) {
        if (!(await isStopped)) throw error;
        if (how === 'cancel') cancelled++;
        else terminated++;
      }
    };

    const over = new AbortController();
    const disturbance = await disturb(resource, taskQueue, over.signal);
    const random = (most: number) => Math.floor(Math.random() * most);
    const callers = Array.from({ length: 60 }, async (_, index) => {
      const size = 1 + random(4);
      const stopAfterMs = index % 5 === 0 ? 1_000 + random(40_000) : 0;
      await delay(random(5_000));
      if (index % 2 === 0) await client(size, stopAfterMs);
      else await workflow(size, stopAfterMs, index % 8 === 1 ? 'terminate' : 'cancel');
    });
    const startedMs = Date.now();
    try {
      await Promise.all(callers);
    } finally {
      over.abort();
      const seconds = Math.round((Date.now() - startedMs) / 1_000);
      const { done } = disturbance;
      t.diagnostic(
        JSON.stringify({ seconds, served: waits.length, cancelled, terminated, ...done, longestMs: longest(waits) }),
      );
      await disturbance.end(false);
    }
    await assertNoPermitLeft(temporal.client, accumulatorResource(resource));
    const holds = await assertSafe(temporal.client, resource, 4, reports);
    await disturbance.end();
    const partial = accumulations(holds, sizes);
    t.diagnostic(`${partial.length} Workflows accumulated`);
    assert.ok(partial.length > 10);
    assert.deepEqual(overlaps(partial), [], 'two kept a part at once');
    assert.equal(waits.length + cancelled + terminated, callers.length);
  },
);

for (const fair of [false, true]) {
  test(
    `large requests behind a stream of small ones, fair: ${fair}, are served in the order in which they came`,
    BOUNDED,
    async (t) => {
      const resource = temporal.resource('stream');
      const semaphore = new SemaphoreClient(temporal.client, resource, {
        capacity: 4,
        taskQueue: temporal.taskQueue,
        fair,
      });
      const stop = new AbortController();
      const small: { fromMs: number; toMs: number }[] = [];
      const stream = Array.from({ length: 12 }, async () => {
        while (!stop.signal.aborted) {
          const fromMs = Date.now();
          await semaphore.withPermit(async () => {
            small.push({ fromMs, toMs: Date.now() });
            await delay(2 * HOLD_MS);
          });
        }
      });
      await delay(2_000);
      const order: number[] = [];
      const larges = [4, 3, 4, 2].map(async (size, index) => {
        await delay(300 * index);
        const fromMs = Date.now();
        const toMs = await withPermits([{ of: semaphore, permits: size }], async () => {
          order.push(index);
          await delay(HOLD_MS);
          return Date.now() - HOLD_MS;
        });
        const overtakers = small.filter((it) => it.fromMs > fromMs && it.toMs < toMs).length;
        return { size, waitedMs: toMs - fromMs, overtakers };
      });
      const waits = await Promise.all(larges);
      stop.abort();
      await Promise.all(stream);
      t.diagnostic(JSON.stringify(waits));
      assert.deepEqual(order, [0, 1, 2, 3]);
      await assertNoPermitLeft(temporal.client, accumulatorResource(resource));
    },
  );
}
