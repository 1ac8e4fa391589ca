import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { mostAtOnce, readHoldIntervals } from '../../../scripts/support/holder-intervals';
import { NoAnswerError, SemaphoreClient } from '../../../src/client';
import { Operator } from '../../../src/operator';
import { keyResource } from '../../../src/shared/key-names';
import { CliHost } from '../../support/cli-host';
import { startOptions } from '../../support/holders';
import { clientOf } from '../../support/sets';
import { assertSafe, eventually, useTemporal } from '../../support/temporal';
import * as workflows from '../../support/workflows';

const temporal = useTemporal();
const host = new CliHost();

const CAPACITY = 6;
const PER_KEY = 2;
const KEYS = 10;
const CALLERS = 10;

const HOLD_MS = 2_000;

/** While so many have not begun, there is work for every slot. */
const LEFT_AT_THE_END = 20;

interface Hold {
  slot: string;
  runId: string;
  holder: string;
  fromMs: number;
  toMs: number;
}

/** How much of the capacity was in use, from the first moment to the last. */
function use(holds: readonly Hold[], fromMs: number, toMs: number): number {
  const usedMs = holds.reduce((sum, hold) => {
    return sum + Math.max(0, Math.min(hold.toMs, toMs) - Math.max(hold.fromMs, fromMs));
  }, 0);
  return usedMs / (CAPACITY * (toMs - fromMs));
}

test('10 keys of 10 callers each on capacity 6, 2 for each key: never more, and no permit of the whole without one of the key; and how much of the 6 is in use', async (t) => {
  const resource = temporal.resource('keyed');
  const { taskQueue } = temporal;
  const semaphore = { capacity: CAPACITY, perKey: PER_KEY };
  const pool = new SemaphoreClient(temporal.client, resource, { ...semaphore, taskQueue });
  const keys = Array.from({ length: KEYS }, (_, n) => `tenant-${n}`);
  const keyOf = new Map<string, string>();
  const reported: Hold[] = [];

  const client = async (key: string) => {
    await pool.withPermit(
      async ({ slot, runId }) => {
        const fromMs = Date.now();
        await delay(HOLD_MS);
        reported.push({ slot, runId, holder: '', fromMs, toMs: Date.now() });
        keyOf.set(runId, key);
      },
      { key },
    );
  };
  const workflow = async (key: string) => {
    const options = startOptions(temporal, 'keyed');
    keyOf.set(options.workflowId, key);
    const args: [workflows.HolderInput] = [{ resource, semaphore, acquire: { key }, holdMs: HOLD_MS }];
    await temporal.client.workflow.execute(workflows.keyHolder, { ...options, args });
  };
  await Promise.all(
    keys.flatMap((key) => Array.from({ length: CALLERS / 2 }, () => [client(key), workflow(key)]).flat()),
  );

  const holds = await assertSafe(temporal.client, resource, CAPACITY, reported);
  assert.equal(holds.length, KEYS * CALLERS);
  const most = mostAtOnce(holds);
  const mostOfKey: number[] = [];
  for (const key of keys) {
    const ofKey = holds.filter(({ holder, runId }) => keyOf.get(holder || runId) === key);
    assert.equal(ofKey.length, CALLERS);
    mostOfKey.push(mostAtOnce(ofKey));
    // A Workflow's histories tell its hold of the key too: each of the whole lies within it.
    const inside = await readHoldIntervals(temporal.client, keyResource(resource, key), { reported: [] });
    assert.ok(mostAtOnce(inside) <= PER_KEY);
    const workflowHolds = ofKey.filter(({ holder }) => holder !== '');
    assert.equal(workflowHolds.length, CALLERS / 2);
    for (const hold of workflowHolds) {
      const own = inside.find(({ holder }) => holder === hold.holder) ?? assert.fail('no hold of the key');
      assert.ok(own.fromMs <= hold.fromMs && hold.toMs <= own.toMs, 'a permit of the whole without one of the key');
    }
  }
  const begun = holds.map(({ fromMs }) => fromMs).sort((a, b) => a - b);
  const inUse = use(holds, begun[CAPACITY - 1] ?? 0, begun.at(-LEFT_AT_THE_END) ?? 0);
  const middleMs = begun[Math.floor(begun.length / 2)] ?? 0;
  const later = use(holds, middleMs, begun.at(-LEFT_AT_THE_END) ?? 0);
  const figures = {
    most,
    mostOfKey: Math.max(...mostOfKey),
    inUse: Number(inUse.toFixed(3)),
    inUseOfTheSecondHalf: Number(later.toFixed(3)),
    handOffMs: Math.round(HOLD_MS * (1 / later - 1)),
  };
  t.diagnostic(JSON.stringify(figures));
  assert.ok(figures.mostOfKey <= PER_KEY, `${mostOfKey}`);
});

test('of several keys, those that could not be changed are named, and the exit code says so', async () => {
  const resource = temporal.resource('keyed');
  const dead = `${temporal.taskQueue}-nobody`;
  const [alive, stuck] = [temporal.taskQueue, dead].map((taskQueue) =>
    clientOf(temporal, resource, { capacity: 2, perKey: 1, taskQueue }),
  );
  const permits = [await alive?.acquire({ key: 'a' }), await stuck?.acquire({ key: 'b' })];
  const order = new Operator(temporal.client, resource, { key: 'b', perKey: 1, taskQueue: dead }).resize(3, {
    timeout: 500,
  });
  await assert.rejects(order, NoAnswerError, 'its queue has no worker');
  const args = ['resize', resource, '2', '--key', '*', '--yes', '--task-queue', temporal.taskQueue];
  const ended = await eventually(async () => {
    const said = await host.run([...args, '--address', temporal.env.address]);
    assert.match(said.stdout, /~key:b: /, 'visibility is late');
    return said;
  });
  assert.equal(ended.code, 69);
  assert.match(ended.stdout, new RegExp(`^${keyResource(resource, 'a')}: .* -> 2\n`));
  assert.match(ended.stdout, new RegExp(`\n${keyResource(resource, 'b')}: failed, .* before: .*\n`));
  assert.match(ended.stderr, /1 of 2 keys of ".*" may not have changed/);
  await temporal.worker({ taskQueue: dead });
  for (const permit of permits) await permit?.release();
  await new Operator(temporal.client, resource, { key: 'b', perKey: 1, taskQueue: dead }).resize(1);
  await new Operator(temporal.client, resource, { key: 'a', perKey: 1 }).resize(1);
});
