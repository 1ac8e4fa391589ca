import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, test } from 'node:test';
import { type Client, WorkflowExecutionAlreadyStartedError } from '@temporalio/client';
import type { TestWorkflowEnvironment } from '@temporalio/testing';
import { FencingToken } from '@/fencing';
import { permitId } from '@/shared/permit-id';
import { PERMIT_WORKFLOW, type PermitInput } from '@/shared/protocol';
import { startServer } from '../scripts/support/temporal-server';

const GRANTS = 5_000;
/** They contend, for a run ID is drawn before the server takes the Workflow ID's lock: only contenders could swap. */
const CONTENDERS = 3;

let env: TestWorkflowEnvironment;
before(async () => {
  env = await startServer();
});
after(async () => {
  await env?.teardown();
});

test(`over ${GRANTS} grants of one slot, each run ID is greater than the one before`, async (t) => {
  const slot = { resource: `order-${randomUUID()}`, slot: '0' };
  const granted: FencingToken[] = [];
  let refused = 0;

  // A holder notes its grant while it holds, so the notes are in the order of the grants. It ends its permit by
  // terminating it: that is the quickest end, and needs no worker.
  const contend = async () => {
    while (granted.length < GRANTS) {
      const runId = await claim(env.client, permitId(slot));
      if (!runId) {
        refused++;
        continue;
      }
      granted.push(FencingToken.from({ ...slot, runId }));
      await env.client.workflow.getHandle(permitId(slot), runId).terminate();
    }
  };
  const startMs = performance.now();
  await Promise.all(Array.from({ length: CONTENDERS }, contend));

  const inversions = granted.flatMap((token, index) => {
    const previous = granted[index - 1];
    return previous && token.compare(previous) <= 0 ? [`grant ${index}: ${previous.runId} before ${token.runId}`] : [];
  });
  const seconds = Math.round((performance.now() - startMs) / 1_000);
  t.diagnostic(
    `${granted.length} consecutive grants, ${refused} refused claims, ${inversions.length} inversions, ${seconds} s`,
  );
  assert.ok(granted.length >= GRANTS);
  assert.deepEqual(inversions, []);
});

/** `undefined` when somebody else has it. */
async function claim(client: Client, workflowId: string): Promise<string | undefined> {
  const input: PermitInput = { leaseMs: 60_000, holder: { identity: 'contender' } };
  try {
    const { firstExecutionRunId } = await client.workflow.start(PERMIT_WORKFLOW, {
      workflowId,
      taskQueue: 'nobody-polls-here',
      args: [input],
      workflowIdConflictPolicy: 'FAIL',
    });
    return firstExecutionRunId;
  } catch (error) {
    if (error instanceof WorkflowExecutionAlreadyStartedError) return undefined;
    throw error;
  }
}
