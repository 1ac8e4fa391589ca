import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { type ApplicationFailure, WithStartWorkflowOperation } from '@temporalio/client';
import { startOptions } from '../../support/holders';
import { assertSafe, eventually, useTemporal } from '../../support/temporal';
import * as workflows from '../../support/workflows';

// What the server accepts for a Workflow under a permit reaches its function, also as the Workflow ends.

const temporal = useTemporal({ shared: true });

const CHAINS = 5;
const SIGNALS = 100;
const UPDATES = 10;

/** One after another, at a pace that leaves no moment of a run without a message. */
async function sendAll(count: number, send: (n: number) => Promise<unknown>): Promise<void> {
  for (let n = 0; n < count; n++) {
    await send(n);
    await delay(10);
  }
}

function numbers(count: number): number[] {
  return Array.from({ length: count }, (_, n) => n);
}

async function ofAll<T>(chain: () => Promise<T>): Promise<T[]> {
  return await Promise.all(numbers(CHAINS).map(chain));
}

for (const [how, workflow, acquire] of [
  ['a limited Workflow', workflows.limitedLedger, {}],
  ['a limited Workflow that hands its permit on', workflows.limitedLedger, { outlivesRun: true }],
  ['continueAsNew inside withPermit', workflows.ledgerInside, {}],
] as const) {
  test(`no signal is lost as a run continues as new: ${how}`, async () => {
    const resource = temporal.resource();
    const input = { resource, semaphore: { capacity: 2 }, acquire, ending: 'continue-as-new' } as const;
    const seen = await ofAll(async () => {
      const { workflowId } = await temporal.client.workflow.start<typeof workflow>(workflow, {
        ...startOptions(temporal, 'ledger'),
        args: [input],
      });
      const handle = temporal.client.workflow.getHandle<typeof workflow>(workflowId);
      await sendAll(SIGNALS, (n) => handle.signal(workflows.add, n));
      await handle.signal(workflows.finish);
      return await handle.result();
    });
    assert.deepEqual(
      seen.map((all) => all.length),
      numbers(CHAINS).map(() => SIGNALS),
    );
    await assertSafe(temporal.client, resource, 2);
  });
}

test('no signal is lost as a limited Workflow returns', async () => {
  const resource = temporal.resource();
  const input = { resource, semaphore: { capacity: 2 } };
  const seen = await ofAll(async () => {
    const workflowId = `ledger-${randomUUID()}`;
    const runs = new Set<string>();
    await sendAll(SIGNALS, async (n) => {
      const { signaledRunId } = await temporal.client.workflow.signalWithStart(workflows.limitedLedger, {
        workflowId,
        taskQueue: temporal.taskQueue,
        args: [input],
        signal: workflows.add,
        signalArgs: [n],
      });
      runs.add(signaledRunId);
    });
    const handle = temporal.client.workflow.getHandle(workflowId);
    await handle.signal(workflows.finish).catch(() => undefined); // it may have returned
    const results = [...runs].map((runId) =>
      temporal.client.workflow.getHandle<typeof workflows.limitedLedger>(workflowId, runId).result(),
    );
    return (await Promise.all(results)).flat().length;
  });
  assert.deepEqual(
    seen,
    numbers(CHAINS).map(() => SIGNALS),
  );
  await assertSafe(temporal.client, resource, 2);
});

/** How the server answers a caller whose update was accepted, when the run ends without an answer. */
const LOST = 'AcceptedUpdateCompletedWorkflow';

for (const ending of ['return', 'continue-as-new'] as const) {
  test(`each update that was accepted is answered as a limited Workflow ends: ${ending}`, async () => {
    const resource = temporal.resource();
    const input = { resource, semaphore: { capacity: 2 }, ending };
    const answers = await ofAll(async () => {
      const workflowId = `desk-${randomUUID()}`;
      // A run refuses it while it waits for its permit, for it has no handler then; so does one that ends.
      const answer = () =>
        eventually(async () => {
          const startWorkflowOperation = new WithStartWorkflowOperation(workflows.limitedDesk, {
            workflowId,
            taskQueue: temporal.taskQueue,
            args: [input],
            workflowIdConflictPolicy: 'USE_EXISTING',
          });
          const asked = temporal.client.workflow.executeUpdateWithStart(workflows.ask, { startWorkflowOperation });
          return await asked.catch((error: Error) => {
            if ((error.cause as ApplicationFailure | undefined)?.type === LOST) return LOST;
            throw error;
          });
        });
      const asked: Promise<string>[] = [];
      await sendAll(UPDATES, async () => asked.push(answer()));
      const answers = await Promise.all(asked);
      const desk = temporal.client.workflow.getHandle(workflowId);
      await desk.signal(workflows.finish).catch(() => undefined); // it may have returned
      await desk.result();
      return answers;
    });
    assert.deepEqual(
      answers,
      numbers(CHAINS).map(() => numbers(UPDATES).map(() => 'answered')),
    );
    await assertSafe(temporal.client, resource, 2);
  });
}
