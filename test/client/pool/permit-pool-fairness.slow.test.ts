import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { PoolInput } from '../../support/pool-main';
import { assertCallsSafe, PoolProcess } from '../../support/pool-process';
import { useTemporal } from '../../support/temporal';

const temporal = useTemporal();

const REUSE_MS = 1_000;

/** A hand-off takes 60 to 130 ms; this allows for a busy machine. */
const HAND_OFF_MS = 300;

function input(resource: string, capacity: number, rest: Partial<PoolInput>): PoolInput {
  const { taskQueue, env } = temporal;
  const semaphore = { capacity, taskQueue };
  return { address: env.address, resource, semaphore, pool: { reuseFor: REUSE_MS }, callers: 1, callMs: 100, ...rest };
}

test('two processes of 200 callers each on 4 slots for 30 s: the smaller share is at least 40 %', async (t) => {
  const resource = temporal.resource();
  const each = input(resource, 4, { callers: 200, forMs: 30_000 });
  const processes = await PoolProcess.open(each, each);
  for (const it of processes) it.go();
  await Promise.all(processes.map((it) => it.until('closed')));
  const [first = 0, second = 0] = processes.map(({ calls }) => calls.length);
  const share = Math.min(first, second) / (first + second);
  t.diagnostic(`${first} and ${second} calls: the smaller share is ${(100 * share).toFixed(1)} %`);
  await assertCallsSafe(
    temporal.client,
    resource,
    4,
    processes.flatMap((it) => it.calls),
  );
  assert.ok(share >= 0.4, `${share}`);
});

test('one caller beside a process of 1,000: 95 % of its waits are below 2 × reuseFor and a hand-off', async (t) => {
  const resource = temporal.resource();
  const many = input(resource, 4, { callers: 1_000, forMs: 40_000 });
  // It pauses for longer than its permit is kept, so that it waits each time.
  const one = input(resource, 4, { forMs: 40_000, pauseMs: 500 });
  const processes = await PoolProcess.open(many, one);
  for (const it of processes) it.go();
  await Promise.all(processes.map((it) => it.until('closed')));
  const waits = (processes[1]?.calls ?? []).map(({ waitedMs }) => waitedMs).sort((a, b) => a - b);
  const p95 = waits[Math.floor(0.95 * waits.length)] ?? Number.POSITIVE_INFINITY;
  const median = waits[Math.floor(0.5 * waits.length)] ?? Number.POSITIVE_INFINITY;
  t.diagnostic(`${waits.length} waits: median ${median.toFixed(0)} ms, 95th percentile ${p95.toFixed(0)} ms`);
  assert.ok(waits.length >= 10, `${waits.length} waits`);
  assert.ok(p95 < 2 * REUSE_MS + HAND_OFF_MS, `${p95} ms`);
});
