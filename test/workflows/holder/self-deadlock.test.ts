import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PermitPool, SelfDeadlockError, SemaphoreClient, withPermits } from '../../../src/client';
import { CliProcess } from '../../support/cli-process';
import { startOptions } from '../../support/holders';
import { useTemporal } from '../../support/temporal';
import * as workflows from '../../support/workflows';

const temporal = useTemporal({ shared: true });

function clientOf(resource: string, capacity: number, perKey?: number): SemaphoreClient {
  return new SemaphoreClient(temporal.client, resource, { taskQueue: temporal.taskQueue, capacity, perKey });
}

test('a Workflow that holds all and asks for more is refused, but not with a timeout, nor in a handler', async () => {
  const [resource, other] = [temporal.resource(), temporal.resource('other')];
  const handle = await temporal.client.workflow.start(workflows.reentrant, {
    ...startOptions(temporal, 'reentrant'),
    args: [{ resource, semaphore: { capacity: 2 }, acquire: { timeout: 200 } }, 2, other],
  });
  await handle.signal(workflows.finish);
  const asked = await handle.result();
  const late = `No permit of "${resource}" came free within 200 ms: its caller holds 2 itself. Use a permit that it holds, or set reentrant.`;
  assert.deepEqual(asked, ['SelfDeadlockError', 'SelfDeadlockError', late, 'acquired']);
});

test('one that leaves a permit to others is served', async () => {
  const [resource, other] = [temporal.resource(), temporal.resource('other')];
  const handle = await temporal.client.workflow.start(workflows.reentrant, {
    ...startOptions(temporal, 'reentrant'),
    args: [{ resource, semaphore: { capacity: 3 }, acquire: { timeout: '1 minute' } }, 2, other],
  });
  await handle.signal(workflows.finish);
  assert.deepEqual(await handle.result(), ['acquired', 'acquired', 'acquired', 'acquired']);
});

test('likewise a client, and for a key', async () => {
  const resource = temporal.resource();
  const semaphore = clientOf(resource, 1);
  const other = clientOf(temporal.resource('other'), 1);
  let elsewhere: Promise<string> | undefined;
  const outside = new Promise<void>((resolve) => setImmediate(resolve)).then(async () => {
    elsewhere = semaphore.withPermit(async () => 'elsewhere');
  });
  await semaphore.withPermit(async () => {
    await outside;
    await assert.rejects(
      semaphore.withPermit(async () => 0),
      SelfDeadlockError,
    );
    await assert.rejects(semaphore.acquire(), { name: 'SelfDeadlockError', resource });
    await assert.rejects(
      withPermits([other, semaphore], async () => 0),
      SelfDeadlockError,
    );
    await assert.rejects(semaphore.acquire({ timeout: 1_000 }), {
      name: 'PermitTimeoutError',
      message: `No permit of "${resource}" came free within 1 s: its caller holds one itself. Use a permit that it holds, or set reentrant.`,
    });
    await assert.rejects(semaphore.acquire({ timeout: 0 }), /is free: its caller holds one itself/);
    await assert.rejects(
      withPermits([other, semaphore], async () => 0, { timeout: 2_000 }),
      /its caller holds one itself/,
    );
    assert.equal(await semaphore.tryAcquire(), undefined);
  });
  assert.equal(await elsewhere, 'elsewhere', 'a caller that does not run inside waits its turn');

  const keyed = clientOf(temporal.resource('keyed'), 5, 1);
  await keyed.withPermit(
    async () => {
      await assert.rejects(keyed.acquire({ key: 'acme' }), SelfDeadlockError);
      assert.equal(await keyed.withPermit(async () => 'served', { key: 'other' }), 'served');
    },
    { key: 'acme' },
  );
});

test('a permit pool that could hold nothing but what its caller holds is refused', async () => {
  const client = clientOf(temporal.resource(), 1);
  await using pool = new PermitPool(client);
  await client.withPermit(async () => {
    await assert.rejects(pool.acquire(), SelfDeadlockError);
    assert.equal(await pool.tryAcquire(), undefined);
  });
});

test('a run inside a run says that the outer one holds what it waits for', async () => {
  const resource = temporal.resource();
  const run = [
    'run',
    resource,
    '--capacity',
    '1',
    '--address',
    temporal.env.address,
    '--task-queue',
    temporal.taskQueue,
  ];
  const inner = [...CliProcess.command, ...run, '--', 'true'].join(' ');
  const outer = new CliProcess([...run, '--', 'sh', '-c', inner]);
  await outer.says(/(1 of 1 held, one of them by the enclosing run)/);
  outer.signal('SIGTERM');
  assert.equal(await outer.exit, 143);
});
