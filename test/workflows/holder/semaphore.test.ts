import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CancelledFailure } from '@temporalio/common';
import { permitId } from '../../../src/shared/permit-id';
import { RELEASE, REVOKE } from '../../../src/shared/protocol';
import { noAwaitUsing } from '../../support/await-using';
import { assertFails, assertReleased, failureOf, startHolding, startOptions, untilAt } from '../../support/holders';
import { assertNoPermitLeft, assertSafe, eventually, useTemporal } from '../../support/temporal';
import type { PoolInput } from '../../support/workflows';
import * as workflows from '../../support/workflows';

const temporal = useTemporal({ shared: true });

test('a terminated holder frees its slot', async () => {
  const resource = temporal.resource();
  const { handle } = await startHolding(temporal, { resource, semaphore: { capacity: 1 } });
  await handle.terminate();
  await assertNoPermitLeft(temporal.client, resource);
});

test('a claim that wins while its caller is being cancelled is given back', async () => {
  const resource = temporal.resource();
  const input: PoolInput = { resource, semaphore: { capacity: 1 } };
  const outcome = await temporal.client.workflow.execute(workflows.cancelledClaimer, {
    ...startOptions(temporal, 'claimer'),
    args: [input],
  });
  assert.equal(outcome, 'cancelled');
  await assertReleased(temporal.client.workflow.getHandle(permitId({ resource, slot: '0' })));
});

test('a holder cancelled while it holds releases, and its function is cancelled', async () => {
  const resource = temporal.resource();
  const { handle, runId } = await startHolding(temporal, { resource, semaphore: { capacity: 1 } });
  await handle.cancel();
  assert.ok((await failureOf(handle.result())) instanceof CancelledFailure);
  const permit = temporal.client.workflow.getHandle(permitId({ resource, slot: '0' }), runId);
  assert.equal(await permit.result(), 'released');
});

test('a permit that ended before its function was through is lost, also where a Workflow hears of both at once', async () => {
  const loseWhenDone = async (first: 'its end' | 'the function') => {
    const resource = temporal.resource();
    const taskQueue = `${temporal.taskQueue}-${resource}`;
    const worker = await temporal.worker({ taskQueue });
    const handle = await temporal.client.workflow.start(workflows.directHolder, {
      ...startOptions(temporal),
      taskQueue,
      args: [{ resource, semaphore: { capacity: 1, taskQueue: temporal.taskQueue } }],
    });
    const { runId } = await untilAt(handle, 'holding');
    await worker.stop();
    const permit = temporal.client.workflow.getHandle(permitId({ resource, slot: '0' }), runId);
    const steps = [
      async () => {
        await permit.signal(REVOKE, { reason: 'for another' });
        assert.equal(await permit.result(), 'revoked');
      },
      async () => await handle.signal(workflows.finish),
    ];
    for (const step of first === 'its end' ? steps : steps.reverse()) await step();
    await temporal.worker({ taskQueue });
    await assertFails(handle.result(), 'PermitLostError', /revoked.*for another/);
  };
  await Promise.all([loseWhenDone('its end'), loseWhenDone('the function')]);
});

test('a permit that ended before its release is lost, although its Workflow had not heard of it', async () => {
  const resource = temporal.resource();
  const handle = await temporal.client.workflow.start(workflows.lateLoser, {
    ...startOptions(temporal),
    args: [{ resource, semaphore: { capacity: 1 } }],
  });
  await untilAt(handle, 'holding');
  await handle.signal(workflows.finish);
  await assertFails(handle.result(), 'PermitLostError', /revoked.*for another/);
});

test('a late release by an old holder does not touch the new holder of its slot, and a late renewal fails', async () => {
  const resource = temporal.resource();
  const semaphore = { capacity: 1, lease: '500ms' as const, renewEvery: false as const };
  const late = await temporal.client.workflow.start(workflows.lateHolder, {
    ...startOptions(temporal),
    args: [{ resource, semaphore }],
  });
  const old = await untilAt(late, 'holding');
  const next = await startHolding(temporal, { resource, semaphore: { capacity: 1 } });
  assert.ok(next.runId > old.runId, 'the later permit of a slot has the greater run ID');
  await late.signal(workflows.finish);
  assert.equal(await late.result(), 'lease-expired');
  const { events } = await temporal.client.workflow
    .getHandle(permitId({ resource, slot: '0' }), next.runId)
    .fetchHistory();
  const signals = events?.map((event) => event.workflowExecutionSignaledEventAttributes?.signalName);
  assert.equal(signals?.includes(RELEASE), false, 'the release went to the wrong run');
  await next.handle.signal(workflows.finish);
  await next.handle.result();
  await assertSafe(temporal.client, resource, 1);
});

test('`await using` releases at the end of the block', { skip: noAwaitUsing }, async () => {
  const input: PoolInput = { resource: temporal.resource(), semaphore: { capacity: 1 } };
  const freed = await temporal.client.workflow.execute(workflows.disposer, {
    ...startOptions(temporal, 'disposer'),
    args: [input],
  });
  assert.equal(freed, true);
});

test('a holder that continues as new inside withPermit gives its permit back, and the next run takes another', async () => {
  const resource = temporal.resource();
  const { handle, runId } = await startHolding(temporal, {
    resource,
    semaphore: { capacity: 1 },
    holdMs: 50,
    ending: 'continue-as-new',
  });
  assert.equal((await handle.result()).at, 'done');
  const permit = temporal.client.workflow.getHandle(permitId({ resource, slot: '0' }), runId);
  assert.equal(await permit.result(), 'released');
  assert.equal((await assertSafe(temporal.client, resource, 1)).length, 2);
});

test('work that was done under the permit counts, though the lease ends before the release comes', async () => {
  const semaphore = { capacity: 1, lease: '4s' } as const;
  const pool = () => ({ resource: temporal.resource(), semaphore });
  const [one, other, pools] = [pool(), pool(), [pool(), pool()]];
  const execute = (type: string, input: unknown) =>
    temporal.client.workflow.execute(type, { ...startOptions(temporal), args: [input] });
  await Promise.all([
    execute('slowHolder', { ...one, holdMs: 1 }),
    execute('slowSetHolder', { pools, holdMs: 1 }),
    assertFails(execute('slowHolder', { ...other, holdMs: 1, ending: 'fail' }), 'AsAsked', /as asked/),
  ]);
  for (const { resource } of [one, other, ...pools]) {
    const permit = temporal.client.workflow.getHandle(permitId({ resource, slot: '0' }));
    assert.equal(await permit.result(), 'lease-expired');
  }
});

test('a permit that is still held when its Workflow continues as new ends with that run', async () => {
  const resource = temporal.resource();
  const semaphore = { capacity: 1 };
  const handle = await temporal.client.workflow.start(workflows.bareHolder, {
    ...startOptions(temporal),
    args: [{ resource, semaphore }],
  });
  const { runId } = await untilAt(handle, 'holding');
  await handle.signal(workflows.finish);
  const first = temporal.client.workflow.getHandle(permitId({ resource, slot: '0' }), runId);
  assert.equal(await first.result(), 'released');
  await eventually(async () => assert.notEqual((await handle.query(workflows.stage)).runId, runId));
  await handle.signal(workflows.finish);
  await handle.result();
  await assertSafe(temporal.client, resource, 1);
});

test('bad options fail the Workflow before any command', async () => {
  const handle = await temporal.client.workflow.start(workflows.maker, {
    ...startOptions(temporal, 'maker'),
    args: [{ resource: 'a resource', semaphore: { capacity: 0 } }],
  });
  await assertFails(handle.result(), 'InvalidOptionsError', /capacity: expected a whole number from 1 to 1000, got 0/);
  const { events } = await handle.fetchHistory();
  assert.equal(events?.length, 5, 'started, task scheduled, started, completed, failed');
});
