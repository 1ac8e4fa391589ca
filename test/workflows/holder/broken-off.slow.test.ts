import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { CancelledFailure, WorkflowFailedError } from '@temporalio/client';
import { startOptions } from '../../support/holders';
import { eventually, useTemporal } from '../../support/temporal';
import { sleeper, spinner, stage } from '../../support/workflows';

const temporal = useTemporal();

/** A worker that the machine stops for long breaks off whatever runs, which nobody can time. Code that never ends is broken off too. */
test('a defect of SDK 1.24.0: when a Workflow is broken off in the middle, others of its worker lose their cancellations', async () => {
  const taskQueue = `${temporal.taskQueue}-broken-off`;
  const limit = { isolateExecutionTimeout: '500ms' }; // which the types leave out
  await temporal.worker({ taskQueue, ...limit });
  const options = () => ({ ...startOptions(temporal, 'broken-off'), taskQueue });
  const endsCancelled = async () => {
    const handle = await temporal.client.workflow.start(sleeper, { ...options(), args: [60_000] });
    await handle.query(stage);
    await handle.cancel();
    const error = await Promise.race([handle.result().catch((failure: unknown) => failure), delay(3_000)]);
    await handle.terminate().catch(() => undefined);
    return error instanceof WorkflowFailedError && error.cause instanceof CancelledFailure;
  };
  assert.ok(await endsCancelled());
  const spins = await temporal.client.workflow.start(spinner, options());
  await eventually(async () => {
    const { events } = await spins.fetchHistory();
    assert.ok(events?.some((event) => event.workflowTaskFailedEventAttributes));
  });
  await spins.terminate();
  const message =
    'the SDK has mended it: createPermitWorker needs no limit of its own, and docs/troubleshooting.md need not tell of it';
  assert.equal(await endsCancelled(), false, message);
});
