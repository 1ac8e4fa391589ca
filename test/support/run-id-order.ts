import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, test } from 'node:test';
import { type Client, WorkflowExecutionAlreadyStartedError } from '@temporalio/client';
import { FencingToken } from '@/fencing';
import { type PermitAddress, permitId } from '@/shared/permit-id';
import { PERMIT_WORKFLOW, type PermitInput } from '@/shared/protocol';
import { startServer, type TemporalServer } from '../../scripts/support/temporal-server';

/** One permit as its holder knew it. All times are of this process's clock. */
interface Grant {
  token: FencingToken;
  claimedMs: number;
  grantedMs: number;
  endedMs: number;
}

let env: TemporalServer;

/**
 * Contenders take and leave one slot. A holder notes its grant while it holds, so the notes are in the order of the grants.
 * It ends its permit by terminating it: that is the quickest end, and needs no worker.
 */
async function grantsOf(contenders: number, count: number): Promise<{ grants: Grant[]; refused: number }> {
  const slot = { resource: `order-${randomUUID()}`, slot: '0' };
  const grants: Grant[] = [];
  let refused = 0;
  const contend = async () => {
    while (grants.length < count) {
      const claimedMs = performance.now();
      const token = await claim(env.client, slot);
      if (!token) {
        refused++;
        continue;
      }
      const grant = { token, claimedMs, grantedMs: performance.now(), endedMs: Number.POSITIVE_INFINITY };
      grants.push(grant);
      await env.client.workflow.getHandle(token.workflowId, token.runId).terminate();
      grant.endedMs = performance.now();
    }
  };
  await Promise.all(Array.from({ length: contenders }, contend));
  return { grants, refused };
}

/** `undefined` when somebody else has it. */
async function claim(client: Client, slot: PermitAddress): Promise<FencingToken | undefined> {
  const input: PermitInput = { leaseMs: 60_000, holder: { identity: 'contender' } };
  try {
    const { firstExecutionRunId } = await client.workflow.start(PERMIT_WORKFLOW, {
      workflowId: permitId(slot),
      taskQueue: 'nobody-polls-here',
      args: [input],
      workflowIdConflictPolicy: 'FAIL',
    });
    return FencingToken.from({ ...slot, runId: firstExecutionRunId });
  } catch (error) {
    if (error instanceof WorkflowExecutionAlreadyStartedError) return undefined;
    throw error;
  }
}

/** Each grant with a smaller run ID than one before it, with the greatest before it. */
function inversions(grants: readonly Grant[]): { earlier: Grant; later: Grant }[] {
  const found: { earlier: Grant; later: Grant }[] = [];
  let greatest: Grant | undefined;
  for (const grant of grants) {
    if (greatest && grant.token.compare(greatest.token) <= 0) found.push({ earlier: greatest, later: grant });
    else greatest = grant;
  }
  return found;
}

/** Tests the order of run IDs on that many grants. Call it at the top of a test file. */
export function testRunIdOrder({ consecutive, contended }: { consecutive: number; contended: number }): void {
  before(async () => {
    env = await startServer();
  });
  after(async () => {
    await env?.teardown();
  });

  test(`over ${consecutive} consecutive grants of one slot, each run ID is greater than the one before`, async (t) => {
    const { grants } = await grantsOf(1, consecutive);
    const inverted = inversions(grants);
    t.diagnostic(`${grants.length} consecutive grants, ${inverted.length} inversions`);
    assert.ok(grants.length >= consecutive);
    assert.deepEqual(inverted, []);
  });

  test('under contention only a claim that was under way before the earlier grant can get a smaller run ID', async (t) => {
    // The server draws a run ID before it takes the Workflow ID's lock. A claim that lingers between the two, while another
    // is granted and ends, comes out inverted: it takes holds of milliseconds, as here, or a server that stalls for longer.
    const { grants, refused } = await grantsOf(4, contended);
    const inverted = inversions(grants);
    const holdsMs = inverted.map(({ earlier }) => Math.round(earlier.endedMs - earlier.grantedMs));
    t.diagnostic(
      `${grants.length} grants to contenders, ${refused} claims refused, ${inverted.length} inversions ` +
        `(after holds of ${holdsMs.join(', ') || 'no'} ms)`,
    );
    for (const { earlier, later } of inverted) {
      assert.ok(later.claimedMs < earlier.grantedMs, `${earlier.token} was granted before ${later.token} was claimed`);
    }
  });
}
