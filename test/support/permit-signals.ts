import assert from 'node:assert/strict';
import { permitId } from '../../src/shared/permit-id';
import { RENEW } from '../../src/shared/protocol';
import { eventually, type Temporal } from './temporal';

/** The signals that a permit has had, by name. */
export async function signalsOf(
  { client }: Temporal,
  permit: { workflowId: string; runId?: string },
): Promise<string[]> {
  const { events } = await client.workflow.getHandle(permit.workflowId, permit.runId).fetchHistory();
  return (events ?? []).flatMap(({ workflowExecutionSignaledEventAttributes: signal }) => signal?.signalName ?? []);
}

/**
 * Waits until the holder of a slot has renewed its permit once more, and then again. So a test need not wait for a lease to pass:
 * give the holder a long one, and a short `renewEvery`. @returns the permit's run ID
 */
export async function untilRenewedAgain(temporal: Temporal, resource: string, slot = '0'): Promise<string> {
  const workflowId = permitId({ resource, slot });
  const { runId } = await temporal.client.workflow.getHandle(workflowId).describe();
  const renewals = async () =>
    (await signalsOf(temporal, { workflowId, runId })).filter((name) => name === RENEW).length;
  const before = await renewals();
  await eventually(async () => assert.ok((await renewals()) >= before + 2, 'nobody renews it'));
  return runId;
}
