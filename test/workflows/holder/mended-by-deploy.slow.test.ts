import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import type { Workflow, WorkflowHandle } from '@temporalio/client';
import { permitId } from '../../../src/shared/permit-id';
import { assertFails, failureOf, startOptions } from '../../support/holders';
import { assertNoPermitLeft, eventually, type Temporal, useTemporal } from '../../support/temporal';
import * as workflows from '../../support/workflows';

// A bug in code under a permit fails the Workflow Task until a deploy mends it, as it does without a permit.

const temporal = useTemporal({ shared: true });

/** A worker of its own runs the code with the bug. The permits run on the worker of the test. */
async function startBuggy(lease = '10 minutes') {
  const resource = temporal.resource();
  const taskQueue = `bills-${randomUUID()}`;
  const worker = await temporal.worker({ taskQueue });
  const input = { resource, semaphore: { capacity: 1, taskQueue: temporal.taskQueue, lease } } as workflows.HolderInput;
  const start = (workflow: Workflow, ...args: unknown[]) =>
    temporal.client.workflow.start(workflow, { ...startOptions(temporal, 'bill'), taskQueue, args });
  /** Replaces the worker by one with the code that has no bug. */
  const deploy = async () => {
    await worker.stop();
    await temporal.worker({ taskQueue, workflowBundle: mended(temporal) });
  };
  return { resource, input, start, deploy };
}

function mended({ bundle }: Temporal) {
  assert.ok('code' in bundle && bundle.code.includes('the code with the bug'));
  return { code: bundle.code.replaceAll('the code with the bug', 'mended: the same code') };
}

function permitOf(resource: string) {
  return temporal.client.workflow.getHandle(permitId({ resource, slot: '0' }));
}

async function untilTaskFails(handle: Pick<WorkflowHandle, 'fetchHistory'>): Promise<void> {
  await eventually(async () => {
    const { events } = await handle.fetchHistory();
    const failure = events?.find((event) => event.workflowTaskFailedEventAttributes);
    assert.match(failure?.workflowTaskFailedEventAttributes?.failure?.message ?? 'none', /Cannot read properties/);
    assert.ok(!events?.some((event) => event.signalExternalWorkflowExecutionInitiatedEventAttributes), 'a release');
  });
}

for (const [what, workflow, ...under] of [
  ['under a permit', workflows.bill, 'permit'],
  ['under a permit that outlives the run', workflows.bill, 'outliving'],
  ['under a permit of a key', workflows.bill, 'key'],
  ['under a set', workflows.bill, 'set'],
  ['under two permits', workflows.bill, 'two'],
  ['in a limited Workflow', workflows.limitedBill],
] as const) {
  test(`a bug ${what} keeps the permit, and a deploy mends it`, async () => {
    const { resource, input, start, deploy } = await startBuggy();
    const semaphore = under[0] === 'key' ? { ...input.semaphore, perKey: 1 } : input.semaphore;
    const handle = await start(workflow, ...under, { ...input, semaphore });
    await untilTaskFails(handle);
    assert.equal((await permitOf(resource).describe()).status.name, 'RUNNING');
    await deploy();
    assert.equal(await handle.result(), 'billed 7');
    await assertNoPermitLeft(temporal.client, `${resource}-other`);
  });
}

for (const [what, workflow, ...under] of [
  ['under a permit', workflows.bill, 'permit'],
  ['under a set', workflows.bill, 'set'],
  ['in a limited Workflow', workflows.limitedBill],
] as const) {
  test(`mended code hears that its permit has ended meanwhile: ${what}`, async () => {
    const { resource, input, start, deploy } = await startBuggy('1s');
    const handle = await start(workflow, ...under, input);
    await untilTaskFails(handle);
    assert.equal(await permitOf(resource).result(), 'lease-expired');
    await untilTaskFails(handle);
    assert.equal((await handle.describe()).status.name, 'RUNNING');
    await deploy();
    await assertFails(handle.result(), 'PermitLostError', /its lease ended before it was renewed/);
  });
}

test('a bug that somebody catches outside releases the permit', async () => {
  const { resource, input, start } = await startBuggy();
  const handle = await start(workflows.catcher, input);
  assert.equal(
    await permitOf(resource)
      .result()
      .catch(() => eventually(() => permitOf(resource).result())),
    'released',
  );
  assert.equal((await handle.describe()).status.name, 'RUNNING');
  await handle.signal(workflows.finish);
  assert.equal(await handle.result(), 'TypeError');
});

test('a bug that the user wants to fail the Workflow releases the permit', async () => {
  const { resource, input, start } = await startBuggy();
  const handle = await start(workflows.failing, input);
  assert.match((await failureOf(handle.result())).message, /Cannot read properties/);
  assert.equal(await permitOf(resource).result(), 'released');
});
