import assert from 'node:assert/strict';
import { AsyncLocalStorage } from 'node:async_hooks';
import { test } from 'node:test';
import { mostAtOnce, type ReportedHold } from '../../../scripts/support/holder-intervals';
import { acquireAll } from '../../../src/client';
import { currentFencingToken } from '../../../src/fencing';
import { inspectAllInUse } from '../../../src/operator/resources-in-use';
import { keyResource } from '../../../src/shared/key-names';
import { permitId } from '../../../src/shared/permit-id';
import { CliHost } from '../../support/cli-host';
import { startOptions } from '../../support/holders';
import { operatorOf } from '../../support/operators';
import { clientOf, holdForAMoment } from '../../support/sets';
import { assertSafe, eventually, untilWaiting, useTemporal } from '../../support/temporal';
import * as workflows from '../../support/workflows';

// Keys of Workflows beside those of clients, what operators see of them, and what only one side has. What both sides promise is
// in contract/keys.test.ts.

const temporal = useTemporal({ shared: true });
const host = new CliHost();

/** Runs code as somebody new: a caller that asks inside the function of another would seem to wait for itself. */
const elsewhere = AsyncLocalStorage.snapshot();

test('Workflows and clients: at most perKey of one key, and capacity of all', async () => {
  const resource = temporal.resource('keyed');
  const semaphore = { capacity: 3, perKey: 2 };
  const whole: ReportedHold[] = [];
  const workflow = (key: string) =>
    temporal.client.workflow.execute(workflows.keyHolder, {
      ...startOptions(temporal, 'keyed'),
      args: [{ resource, semaphore, acquire: { key }, holdMs: 20 }],
    });
  const client = async (key: string) => {
    const permit = await clientOf(temporal, resource, semaphore).acquire({ key });
    assert.equal(permit.resource, resource);
    const holds = await holdForAMoment([permit]);
    await permit.release();
    whole.push(...holds);
    return holds;
  };
  const callersOf = async (key: string, many: number) => {
    const holds = Array.from({ length: many }, () => client(key));
    await Promise.all(Array.from({ length: many }, () => workflow(key)));
    // A client's hold of the whole lies within its hold of the key. Of Workflows, the histories say both.
    const held = (await Promise.all(holds)).flat();
    assert.ok(mostAtOnce(held.map((hold) => ({ ...hold, slot: '', holder: '', toMs: hold.toMs ?? 0 }))) <= 2);
    await assertSafe(temporal.client, keyResource(resource, key), 2, []);
  };
  await Promise.all([callersOf('acme', 3), callersOf('über/ltd', 1)]);
  assert.equal((await assertSafe(temporal.client, resource, 3, whole)).length, 8);
});

test('a client hands over no permit that has a key: the permit of the key would stay behind', async () => {
  const keyed = clientOf(temporal, temporal.resource('keyed'), { capacity: 2, perKey: 1 });
  const alone = await keyed.acquire({ key: 'a' });
  const set = await acquireAll([{ of: keyed, key: 'b' }]);
  for (const [permit, held] of [
    [alone, alone],
    [set.permits[0], set],
  ] as const) {
    for (const handOver of [() => permit.ref(), () => permit.detach()]) {
      assert.throws(handOver, /This permit can't be handed over: no caller could adopt the permit of its key "[ab]"\./);
    }
    assert.equal(held.signal.aborted, false);
    await held.release();
  }
});

test('a client refuses a set of keys without a key; each key may have a number of its own, and the token is of the whole', async () => {
  const resource = temporal.resource('keyed');
  const keyed = clientOf(temporal, resource, { capacity: 2, perKey: (key) => (key === 'acme' ? 1 : 2) });
  await assert.rejects(keyed.acquire(), /expected a key/);
  await assert.rejects(acquireAll([keyed]), /expected a key/);
  await assert.rejects(acquireAll([{ of: keyed, key: 'a' }], { key: 'a' } as object), /expected the key in its entry/);
  const inside = async (key: string) =>
    await keyed.withPermit(
      async (permit) => {
        assert.equal(currentFencingToken().toString(), `${resource}/${permit.slot}/${permit.runId}`);
        assert.equal(permit.resource, resource);
        const another = await elsewhere(async () => await keyed.tryAcquire({ key }));
        await another?.release();
        return another !== undefined;
      },
      { key },
    );
  assert.deepEqual([await inside('acme'), await inside('other')], [false, true]);
});

test('operators see keys under their resource, and can look at one', async () => {
  const resource = temporal.resource('keyed');
  const pool = clientOf(temporal, resource, { capacity: 5, perKey: 1 });
  const held = await Promise.all(['a', 'b', 'c'].map((key) => pool.acquire({ key })));
  const waiting = pool.acquire({ key: 'a' });
  await untilWaiting(temporal.client, keyResource(resource, 'a'), 1);
  const { client } = temporal;
  await eventually(async () => {
    const rows = (await inspectAllInUse(client)).filter((it) => it.resource.startsWith(resource));
    assert.deepEqual(
      rows.map((row) => row.resource),
      [resource],
    );
    assert.deepEqual(rows[0]?.keys, { held: 3, permits: 3, queued: 1 });
    assert.deepEqual([rows[0]?.held, rows[0]?.capacity], [3, 5], 'the permits state the capacity');
  });
  const at = ['--address', temporal.env.address];
  const ls = await host.run(['ls', ...at]);
  assert.equal(ls.code, 0, ls.stderr);
  assert.match(ls.stdout, new RegExp(`${resource} .*3 hold, 1 with a queue`));
  assert.ok(!ls.stdout.includes(`${resource}~key`));
  const why = await host.run(['why', client.options.identity, ...at]);
  assert.equal(why.code, 0, why.stderr);
  assert.match(why.stdout, new RegExp(`waits for a permit of ${resource}~key:a`));
  const key = await operatorOf(clientOf(temporal, keyResource(resource, 'a'), { capacity: 1 })).inspect();
  assert.equal(key.waiters.length, 1);
  await held[0]?.release();
  for (const permit of [...held, await waiting]) await permit.release();
});

test('the command line shows and changes the limits of keys: of one, and of all that are in use', async () => {
  const resource = temporal.resource('keyed');
  const pool = clientOf(temporal, resource, { capacity: 5, perKey: 2 });
  const nameOf = (key: string) => keyResource(resource, key);
  const to = ['--address', temporal.env.address];
  const output = async (...args: string[]) => {
    const { code, stdout, stderr } = await host.run([...args, ...to]);
    assert.deepEqual([code, stderr], [0, ''], stdout);
    return stdout;
  };
  const order = async (...args: string[]) => await output(...args, '--task-queue', temporal.taskQueue, '--yes');

  assert.match(
    await order('resize', resource, '3', '--key', 'idle', '--per-key', '2', '--reason', 'a bigger plan'),
    new RegExp(`^${nameOf('idle')}: resized to 3: a bigger plan \\(version \\d+\\)\\.\n$`),
  );
  const held = await Promise.all(['acme', 'acme', 'other'].map((key) => pool.acquire({ key })));
  const waiting = pool.acquire({ key: 'acme' });
  await untilWaiting(temporal.client, nameOf('acme'), 1);
  await eventually(async () => {
    const rows = await output('ls', resource, '--keys');
    assert.match(rows, new RegExp(`^${nameOf('acme')} +2 +2 +1 `, 'm'));
    assert.match(rows, new RegExp(`^${nameOf('idle')} +0 +3 +0 +resized to 3: a bigger plan$`, 'm'));
    assert.match(rows, new RegExp(`^${nameOf('other')} +1 +2 +0`, 'm'));
    assert.match(rows, new RegExp(`^${resource} +3 +5 `, 'm'));
  });
  assert.match(
    await output('ls', resource, '--key', 'acme'),
    new RegExp(`^${nameOf('acme')}: 2 of 2 held, 1 waiting\n`),
  );

  const all = (await order('resize', resource, '1', '--key', '*', '--reason', 'incident')).split('\n');
  assert.deepEqual(all.slice(0, 3), [
    `${nameOf('acme')}: 2, as declared -> 1`,
    `${nameOf('idle')}: 3 -> 1`,
    `${nameOf('other')}: 2, as declared -> 1`,
  ]);
  assert.match(all[3] ?? '', /^Keys that come into use later have the limit that their callers declare \(perKey\)\.$/);
  const none = await host.run(['resize', resource, '0', '--key', '*', '--yes', ...to]);
  assert.deepEqual([none.code, none.stdout], [64, '']);
  assert.match(none.stderr, /capacity: expected a whole number from 1 to 1000 \(to give none, use pause\), got 0/);
  const why = await output('why', temporal.client.options.identity, '--resource', nameOf('acme'));
  assert.match(
    why,
    new RegExp(`\n${nameOf('acme')}: 2 of 1 held \\(1 until released\\) \\[resized to 1: incident\\]\\.\n`),
  );
  const changed = JSON.parse(await order('resize', resource, '2', '--key', '*', '--json'));
  assert.deepEqual(
    changed.map(({ after }: { after: object }) => after),
    Array.from({ length: 3 }, () => ({ capacity: 2, override: null })),
  );
  const nobody = await host.run(['resize', `${resource}-x`, '2', '--key', '*', '--yes', ...to]);
  assert.deepEqual([nobody.code, nobody.stdout], [1, '']);
  assert.match(nobody.stderr, /^temporal-semaphore: no key of .* has a holder, a waiter or an override/);

  const unheld = await host.run(['revoke', resource, '0', '--key', 'nobody', '--yes', ...to]);
  assert.deepEqual(
    [unheld.code, unheld.stderr],
    [66, `temporal-semaphore: No caller holds slot "0" of "${nameOf('nobody')}".\n`],
  );
  const { slots } = JSON.parse(await output('ls', resource, '--key', 'other', '--json'));
  const { slot } = slots.find(({ state }: { state: string }) => state === 'held');
  assert.match(await order('revoke', resource, slot, '--key', 'other'), /^Took slot "." of ".*~key:other" from /);
  for (const permit of held) await permit.release();
  await (await waiting).release();
});

test('run takes a permit for a key', async () => {
  const resource = temporal.resource('keyed');
  const to = ['--address', temporal.env.address, '--task-queue', temporal.taskQueue];
  const flags = ['run', resource, '--capacity', '2', '--per-key', '1', ...to];
  const holding = await clientOf(temporal, resource, { capacity: 2, perKey: 1 }).acquire({ key: 'acme' });
  const full = await host.run([...flags, '--key', 'acme', '--try', '--', 'true']);
  assert.equal(full.code, 75);
  assert.match(full.stderr, /No permit of ".*~key:acme" is free/);
  const free = await host.run([...flags, '--key', 'other', '--', 'sh', '-c', 'echo $PERMIT_WORKFLOW_ID']);
  assert.equal(free.code, 0, free.stderr);
  assert.match(free.stdout, new RegExp(`^${permitId({ resource, slot: '' })}[01]\n$`));
  const missing = await host.run([...flags, '--', 'true']);
  assert.equal(missing.code, 64);
  await holding.release();
});
