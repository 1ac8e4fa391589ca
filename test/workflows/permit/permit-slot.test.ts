import assert from 'node:assert/strict';
import { test } from 'node:test';
import { WorkflowExecutionAlreadyStartedError, type WorkflowHandle } from '@temporalio/client';
import { permitId, queueId } from '../../../src/shared/permit-id';
import {
  ADOPT,
  CLOSING,
  type ClosingNotice,
  PERMIT_STATUS,
  type PermitStatus,
  RELEASE,
  RENEW,
  REVOKE,
  WATCH,
} from '../../../src/shared/protocol';
import { permitSlotWorkflow } from '../../../src/workflows';
import { assertFails, startOptions } from '../../support/holders';
import { until, useTemporal } from '../../support/temporal';
import * as workflows from '../../support/workflows';

const temporal = useTemporal({ shared: true });

function startPermit(leaseMs: number, options: { resource?: string; taskQueue?: string } = {}) {
  return temporal.client.workflow.start(permitSlotWorkflow, {
    workflowId: permitId({ resource: options.resource ?? temporal.resource(), slot: '0' }),
    taskQueue: options.taskQueue ?? temporal.taskQueue,
    args: [{ leaseMs, holder: { identity: 'test' } }],
  });
}

async function eventsOf(permit: Pick<WorkflowHandle, 'fetchHistory'>) {
  return (await permit.fetchHistory()).events ?? [];
}

test('a release ends the permit, and only then can its slot be claimed again', async () => {
  const resource = temporal.resource();
  const permit = await startPermit(60_000, { resource });
  await assert.rejects(startPermit(60_000, { resource }), WorkflowExecutionAlreadyStartedError);
  await permit.signal(RELEASE);
  assert.equal(await permit.result(), 'released');
  const next = await startPermit(60_000, { resource });
  await next.signal(RELEASE);
  assert.equal(await next.result(), 'released');
});

test('a cancel request is a release', async () => {
  const permit = await startPermit(60_000);
  await permit.cancel();
  assert.equal(await permit.result(), 'released');
});

test('a revocation ends the permit, also without a reason', async () => {
  const permit = await startPermit(60_000);
  await permit.signal(REVOKE);
  assert.equal(await permit.result(), 'revoked');
});

test('a permit tells its queue which holder has released it, and names none where it ends in another way', async () => {
  const endings: [
    name: string | undefined,
    end: (permit: Awaited<ReturnType<typeof startPermit>>) => Promise<unknown>,
  ][] = [
    ['test', (permit) => permit.signal(RELEASE)],
    [
      'adopter',
      async (permit) => {
        await permit.signal(ADOPT, { holder: { workflowId: 'adopter', identity: 'x' } });
        await permit.signal(RELEASE);
      },
    ],
    [undefined, (permit) => permit.signal(REVOKE)],
    [undefined, (permit) => permit.cancel()], // the server does it for a Workflow that is gone
  ];
  for (const [name, end] of endings) {
    const resource = temporal.resource();
    const queue = await temporal.client.workflow.start(workflows.sleeper, {
      ...startOptions(temporal),
      workflowId: queueId(resource),
      args: [1],
    });
    const permit = await startPermit(60_000, { resource });
    await permit.signal(WATCH, { queueId: queueId(resource) });
    await end(permit);
    await permit.result();
    const closing = (await eventsOf(queue)).find(
      ({ workflowExecutionSignaledEventAttributes: signal }) => signal?.signalName === CLOSING,
    );
    const data = closing?.workflowExecutionSignaledEventAttributes?.input?.payloads?.[0]?.data ?? [];
    assert.equal((JSON.parse(Buffer.from(data).toString()) as ClosingNotice).releasedBy, name);
    await queue.signal(workflows.finish);
    await queue.result();
  }
});

test('the lease ends a permit whose holder is silent, not before its time', async () => {
  const startedMs = Date.now();
  const permit = await startPermit(700);
  assert.equal(await permit.result(), 'lease-expired');
  assert.ok(Date.now() - startedMs >= 700, 'the lease was cut short');
});

test('renewals keep a permit past its lease', async () => {
  const permit = await startPermit(3_000);
  await until(async () => (await eventsOf(permit)).some((event) => event.timerStartedEventAttributes));
  await permit.signal(RENEW, { leaseMs: 60_000 });
  await permit.signal(RENEW); // shortens nothing
  await until(async () => (await eventsOf(permit)).some((event) => event.timerFiredEventAttributes));
  assert.ok((await permit.query<PermitStatus>(PERMIT_STATUS)).deadlineMs > Date.now() + 30_000);
  await permit.signal(RELEASE);
  assert.equal(await permit.result(), 'released');
});

test('a renewal that stands in one batch with the lease timer wins', async () => {
  const taskQueue = `${temporal.taskQueue}-batch`;
  const first = await temporal.worker({ taskQueue });
  const permit = await startPermit(5_000, { taskQueue });
  await permit.query('__stack_trace'); // it runs: its timer is set
  await first.stop();
  await permit.signal(RENEW);
  await until(async () => (await eventsOf(permit)).some((event) => event.timerFiredEventAttributes));
  await temporal.worker({ taskQueue });
  await until(async () => {
    const timers = (await eventsOf(permit)).filter((event) => event.timerStartedEventAttributes);
    return timers.length === 2; // it waits for another lease
  });
  await permit.signal(RELEASE);
  assert.equal(await permit.result(), 'released');
});

test('what comes before the first task of a permit counts in the order in which it came', async () => {
  const taskQueue = `${temporal.taskQueue}-late`;
  const [revoked, released] = [await startPermit(60_000, { taskQueue }), await startPermit(60_000, { taskQueue })];
  for (const signal of [REVOKE, RELEASE]) await revoked.signal(signal);
  for (const signal of [RELEASE, REVOKE]) await released.signal(signal);
  await temporal.worker({ taskQueue });
  assert.deepEqual([await revoked.result(), await released.result()], ['revoked', 'released']);
});

test('malformed signals do not keep a permit from its work', async () => {
  const permit = await startPermit(60_000);
  for (const payload of [undefined, null, 'x', {}, { queueId: '' }, { queueId: 7 }])
    await permit.signal(WATCH, payload);
  await permit.signal(ADOPT);
  await permit.signal(ADOPT, { holder: { workflowId: 'w', runId: 'no UUID' } });
  await permit.signal(REVOKE, { reason: 'drain' });
  assert.equal(await permit.result(), 'revoked');
});

for (const leaseMs of ['1000', Number.NaN, 0, undefined]) {
  test(`a lease of ${JSON.stringify(leaseMs)} fails the permit at once`, async () => {
    const permit = await startPermit(leaseMs as number);
    await assertFails(permit.result(), 'InvalidOptionsError', /leaseMs: expected a number/);
  });
}

test('holder, purpose and lease are in the memo', async () => {
  const input = { leaseMs: 60_000, holder: { identity: 'a@b' }, purpose: 'proof' };
  const permit = await temporal.client.workflow.start(permitSlotWorkflow, {
    workflowId: permitId({ resource: temporal.resource(), slot: '0' }),
    taskQueue: temporal.taskQueue,
    args: [input],
    memo: { ...input },
  });
  assert.deepEqual((await permit.describe()).memo, input);
  await permit.signal(RELEASE);
  await permit.result();
});
