import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { mostAtOnce, type ReportedHold } from '../scripts/support/holder-intervals';
import { acquireAll, PermitTimeoutError, SemaphoreClient, type SemaphoreClientOptions } from '../src/client';
import { poolsInUse } from '../src/client/operators';
import { currentFencingToken } from '../src/fencing';
import { keyResource } from '../src/shared/key-pool';
import { permitId } from '../src/shared/permit-id';
import { CliProcess } from './support/cli-process';
import { assertFails, startOptions } from './support/holders';
import {
  assertNoPermitLeft,
  assertSafe,
  eventually,
  permitsRunning,
  untilWaiting,
  useTemporal,
} from './support/temporal';
import * as workflows from './support/workflows';

const temporal = useTemporal({ shared: true });

function clientOf(resource: string, options: Partial<SemaphoreClientOptions>): SemaphoreClient {
  return new SemaphoreClient(temporal.client, resource, { taskQueue: temporal.taskQueue, ...options });
}

test('Workflows and clients: at most perKey of one key, and capacity of all', async () => {
  const resource = temporal.resource('keyed');
  const semaphore = { capacity: 3, perKey: 2 };
  const keys = ['acme', 'über/ltd'];
  const reports = new Map(keys.map((key) => [key, [] as ReportedHold[]]));
  const whole: ReportedHold[] = [];
  const workflow = (key: string) =>
    temporal.client.workflow.execute(workflows.keyHolder, {
      ...startOptions(temporal, 'keyed'),
      args: [{ resource, semaphore, acquire: { key }, holdMs: 20 }],
    });
  const client = async (key: string) => {
    const set = await clientOf(resource, semaphore).acquire({ key });
    const fromMs = Date.now();
    await delay(20);
    const toMs = Date.now();
    await set.release();
    const [permit] = set.permits;
    assert.equal(permit?.resource, resource);
    whole.push({ runId: permit.runId, fromMs, toMs });
    reports.get(key)?.push({ runId: '', fromMs, toMs });
  };
  await Promise.all(keys.flatMap((key) => [0, 1, 2].flatMap(() => [workflow(key), client(key)])));
  assert.equal((await assertSafe(temporal.client, resource, 3, whole)).length, 12);
  for (const key of keys) {
    // A client's hold of the whole lies within its hold of the key. Of Workflows, the histories say both.
    await assertSafe(temporal.client, keyResource(resource, key), 2, []);
    const most = mostAtOnce(
      (reports.get(key) ?? []).map((hold) => ({ ...hold, slot: '', holder: '', toMs: hold.toMs ?? 0 })),
    );
    assert.ok(most <= 2, `${most} of ${key} at once`);
  }
});

test('a key that is full holds no slot of the whole, and its timeout names it', async () => {
  const resource = temporal.resource('keyed');
  const pool = clientOf(resource, { capacity: 2, perKey: (key) => (key === 'acme' ? 1 : 2) });
  const first = await pool.acquire({ key: 'acme' });
  const late = await pool.acquire({ key: 'acme', timeout: 300 }).catch((error: unknown) => error);
  assert.ok(late instanceof PermitTimeoutError, String(late));
  assert.equal(late.resource, `${resource}~key:acme`);

  const waiting = pool.withPermit(
    async (permit) => {
      assert.equal(currentFencingToken().toString(), `${resource}/${permit.slot}/${permit.runId}`);
      return permit.resource;
    },
    { key: 'acme' },
  );
  await untilWaiting(temporal.client, keyResource(resource, 'acme'), 1);
  assert.equal(await pool.tryAcquire({ key: 'acme' }), undefined);
  const other = await pool.tryAcquire({ key: 'other' });
  assert.ok(other, 'another key has its permit at once');
  assert.equal(await pool.tryAcquire({ key: 'other' }), undefined, 'the whole is full');
  await eventually(async () => {
    const running = await permitsRunning(temporal.client, keyResource(resource, 'other'));
    assert.equal(running.length, 1, 'and gave its key back');
  });
  await Promise.all([first.release(), other.release()]);
  assert.equal(await waiting, resource);
  for (const key of ['acme', 'other']) await assertNoPermitLeft(temporal.client, keyResource(resource, key));
});

test('a missing key, and the name of a key as a resource, are refused', async () => {
  const resource = temporal.resource('keyed');
  const keyed = { capacity: 1, perKey: 1 };
  const refused = (name: string, semaphore: workflows.SemaphoreOptions, message: RegExp, key?: string) =>
    assertFails(
      temporal.client.workflow.execute(workflows.keyHolder, {
        ...startOptions(temporal, 'keyed'),
        args: [{ resource: name, semaphore, acquire: { key } }],
      }),
      'InvalidOptionsError',
      message,
    );
  await refused(resource, keyed, /expected a key/);
  await refused(resource, { capacity: 1 }, /has no perKey/, 'acme');
  await refused(`${resource}~key:acme`, { capacity: 1 }, /a name without "~key:"/);
  const pool = clientOf(resource, keyed);
  await assert.rejects(pool.acquire(), /expected a key/);
  await assert.rejects(pool.tryAcquire(), /expected a key/);
  await assert.rejects(acquireAll([pool]), /expected a key/);
  await assert.rejects(acquireAll([{ of: pool, key: 'a' }], { key: 'a' } as object), /expected the key in its entry/);
  await assert.rejects(clientOf(`${resource}~key:acme`, { capacity: 1 }).acquire(), /a name without "~key:"/);
});

test('operators see keys under their resource, and can look at one', async () => {
  const resource = temporal.resource('keyed');
  const pool = clientOf(resource, { capacity: 5, perKey: 1 });
  const held = await Promise.all(['a', 'b', 'c'].map((key) => pool.acquire({ key })));
  const waiting = pool.acquire({ key: 'a' });
  await untilWaiting(temporal.client, keyResource(resource, 'a'), 1);
  const { taskQueue, client } = temporal;
  await eventually(async () => {
    const rows = (await poolsInUse(client, { taskQueue })).filter((it) => it.resource.startsWith(resource));
    assert.deepEqual(
      rows.map((row) => row.resource),
      [resource],
    );
    assert.deepEqual(rows[0]?.keys, { held: 3, permits: 3, queued: 1 });
    assert.equal(rows[0]?.slots.length, 3);
  });
  const ls = new CliProcess(['ls', '--address', temporal.env.address]);
  assert.equal(await ls.exit, 0, ls.stderr);
  assert.match(ls.stdout, new RegExp(`${resource} .*3 hold, 1 with a queue`));
  assert.ok(!ls.stdout.includes(`${resource}~key`));
  const why = new CliProcess(['why', client.options.identity, '--address', temporal.env.address]);
  assert.equal(await why.exit, 0, why.stderr);
  assert.match(why.stdout, new RegExp(`waits for a permit of ${resource}~key:a`));
  const key = await clientOf(keyResource(resource, 'a'), { capacity: 1 }).inspect();
  assert.equal(key.waiters.length, 1);
  await held[0]?.release();
  for (const set of [...held, await waiting]) await set.release();
});

test('run takes a permit for a key', async () => {
  const resource = temporal.resource('keyed');
  const to = ['--address', temporal.env.address, '--task-queue', temporal.taskQueue];
  const flags = ['run', resource, '--capacity', '2', '--per-key', '1', ...to];
  const holding = await clientOf(resource, { capacity: 2, perKey: 1 }).acquire({ key: 'acme' });
  const full = new CliProcess([...flags, '--key', 'acme', '--try', '--', 'true']);
  assert.equal(await full.exit, 75);
  assert.match(full.stderr, /No permit of ".*~key:acme" is free/);
  const free = new CliProcess([...flags, '--key', 'other', '--', 'sh', '-c', 'echo $PERMIT_WORKFLOW_ID']);
  assert.equal(await free.exit, 0, free.stderr);
  assert.match(free.stdout, new RegExp(`^${permitId({ resource, slot: '' })}[01]\n$`));
  const missing = new CliProcess([...flags, '--', 'true']);
  assert.equal(await missing.exit, 64);
  await holding.release();
});
