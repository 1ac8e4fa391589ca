import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeGrant, FakePermit } from '../../test/support/fake-permit';

test('one that had ended before it is given up for a while is lost: nothing is done meanwhile, and nobody lines up', async () => {
  const grant = new FakeGrant();
  const permit = new FakePermit(grant);
  grant.late = new Error('was revoked');
  let worked = false;
  const work = async () => {
    worked = true;
  };
  await assert.rejects(permit.yield(work), /was revoked/);
  assert.deepEqual([worked, permit.made, permit.isAway, permit.isHeld], [false, [], false, false]);
});

test('a permit that was lost or given back passes no checkpoint, whether anybody asks for it or not', async () => {
  const grant = new FakeGrant();
  const permit = new FakePermit(grant);
  assert.equal(await permit.checkpoint(), permit);
  grant.isHeld = false;
  await assert.rejects(permit.checkpoint(), /lost/);
  grant.isWanted = true;
  await assert.rejects(permit.checkpoint(), /lost/);
});

test('a checkpoint that gives the slot up gives the same permit, with another run', async () => {
  const grant = new FakeGrant();
  const permit = new FakePermit(grant);
  grant.isWanted = true;
  assert.equal(await permit.checkpoint(), permit);
  assert.deepEqual([permit.runId, grant.isHeld, permit.isHeld], ['run-1', false, true]);
});

test('a holder that yields 20,000 times holds its permit, and releases it', async () => {
  const permit = new FakePermit();
  for (let yields = 0; yields < 20_000; yields++) assert.equal(await permit.yield(() => undefined), permit);
  assert.ok(permit.isHeld && !permit.isAway && permit.runId === 'run-20000');
  await permit.release();
  assert.ok(!permit.isHeld);
});

test('a release while its holder is away ends the permit that it comes back with', async () => {
  const permit = new FakePermit();
  const back = permit.yield(async () => {
    assert.ok(permit.isAway && !permit.isHeld && !permit.isOver);
    await permit.release();
  });
  assert.ok(!(await back).isHeld);
  assert.deepEqual(
    permit.made.map(({ isHeld }) => isHeld),
    [false],
  );
});

test('what becomes of a run that it has given up is not its business; what becomes of the present one is', async () => {
  const grant = new FakeGrant();
  const permit = new FakePermit(grant, { atCheckpoints: true });
  await permit.yield(() => undefined);
  grant.watcher?.lost(new Error('the old one'));
  grant.watcher?.wanted(new Error('the old one'));
  const [next] = permit.made;
  next?.watcher?.wanted(new Error('the new one'));
  next?.watcher?.lost(new Error('the new one'));
  assert.deepEqual(permit.told, ['asked: the new one', 'lost: the new one']);
});

test('a holder that gives way at no checkpoints must stop when a waiter asks', () => {
  const grant = new FakeGrant();
  const permit = new FakePermit(grant);
  grant.watcher?.wanted(new Error('pre-empted'));
  assert.deepEqual(permit.told, ['must stop: pre-empted']);
});

test('a permit of a key is renewed and released with the permit of the key behind it, and its lease ends with the earlier of both', async () => {
  const [grant, behind] = [new FakeGrant('run-0', 2_000), new FakeGrant('run-key', 1_000)];
  const permit = new FakePermit(grant, { behind });
  assert.deepEqual(await permit.renew('1 minute'), new Date(1_000));
  await permit.renew();
  for (const { renewals } of [grant, behind]) assert.deepEqual(renewals, [60_000, undefined]);
  await permit.release();
  assert.deepEqual([grant.isHeld, behind.isHeld], [false, false]);
});

test('a permit that was released or handed over is not renewed: its next holder has the lease', async () => {
  for (const end of ['release', 'detach'] as const) {
    const grant = new FakeGrant();
    const permit = new FakePermit(grant);
    await permit[end]();
    await assert.rejects(permit.renew(), /lost/);
    assert.deepEqual(grant.renewals, []);
  }
});

test('a permit of a key that has lost the permit of the key says so, whatever is asked of it', async () => {
  const behind = new FakeGrant('run-key');
  const permit = new FakePermit(new FakeGrant(), { behind });
  behind.isHeld = false;
  behind.loss = new Error('the key’s was revoked');
  await assert.rejects(permit.renew(), behind.loss);
  await assert.rejects(permit.checkpoint(), behind.loss);
  await assert.rejects(
    permit.yield(() => assert.fail('it holds nothing that it could give up')),
    behind.loss,
  );
});
