import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { ApplicationFailure, type Client, WorkflowFailedError, type WorkflowHandle } from '@temporalio/client';
import { type HistoryEvent, timeMs } from '../../scripts/support/history-events';
import { queueId } from '../../src/shared/permit-id';
import { CLOSING, TURN, WATCH } from '../../src/shared/protocol';
import { CONTENDED_TIMEOUT_MS } from '../../src/workflows/queue/offer-timeouts';
import { eventually, type Temporal } from './temporal';
import type { HolderInput, Stage } from './workflows';
import * as workflows from './workflows';

/** Options that every Workflow of a test starts with. */
export function startOptions(temporal: Temporal, prefix = 'holder') {
  return { workflowId: `${prefix}-${randomUUID()}`, taskQueue: temporal.taskQueue };
}

export function startHolder(temporal: Temporal, input: HolderInput) {
  return temporal.client.workflow.start(workflows.holder, { ...startOptions(temporal), args: [input] });
}

/** Starts a holder and waits until it holds. */
export async function startHolding(temporal: Temporal, input: HolderInput) {
  const handle = await startHolder(temporal, input);
  return { handle, ...(await untilAt(handle, 'holding')) };
}

/** That its holder has released it. The permit of a Workflow that ends without a release is cancelled instead. */
export async function assertReleased(permit: Pick<WorkflowHandle, 'result' | 'fetchHistory'>) {
  assert.equal(await permit.result(), 'released');
  const { events } = await permit.fetchHistory();
  const isCancelled = events?.some((event) => event.workflowExecutionCancelRequestedEventAttributes);
  assert.equal(isCancelled, false, 'cancelled with its parent, not released');
}

export async function untilAt(handle: Pick<WorkflowHandle, 'query'>, at: Stage['at']) {
  return await eventually(async () => {
    const stage = await handle.query(workflows.stage);
    assert.equal(stage.at, at);
    return { slot: stage.slot ?? '', runId: stage.runId ?? '' };
  });
}

/** That the permit of this run told the queue of its end. Of an end that it is not told, the queue would learn by a look. */
export async function assertQueueTold(client: Client, resource: string, runId: string) {
  const { events } = await client.workflow.getHandle(queueId(resource)).fetchHistory();
  const told = (events ?? []).some(({ workflowExecutionSignaledEventAttributes: signal }) => {
    return signal?.signalName === CLOSING && Buffer.from(signal.input?.payloads?.[0]?.data ?? []).includes(runId);
  });
  assert.ok(told, `the queue of ${resource} was not told`);
}

/** That the queue gave its next turn because of the first such event, and did not wait until the turn before it was too old. */
export async function assertPassedOn(client: Client, resource: string, isCause: (event: HistoryEvent) => unknown) {
  const { events } = await client.workflow.getHandle(queueId(resource)).fetchHistory();
  const from = (events ?? []).findIndex(isCause);
  assert.ok(from >= 0, 'the queue has not heard of it');
  const since = (events ?? []).slice(from);
  const sent = (event: HistoryEvent | undefined) =>
    event?.signalExternalWorkflowExecutionInitiatedEventAttributes?.signalName;
  const isTurn = (eventId: unknown) => sent(since.find((event) => String(event.eventId) === String(eventId))) === TURN;
  const told = since.findIndex((event) =>
    isTurn(event.externalWorkflowExecutionSignaledEventAttributes?.initiatedEventId),
  );
  assert.ok(told >= 0, 'nobody had the next turn');
  // It may look at other slots meanwhile.
  const tookMs = timeMs(since[told]) - timeMs(since[0]);
  const looked = since.slice(0, told).some((event) => sent(event) === WATCH);
  assert.ok(!looked || tookMs < CONTENDED_TIMEOUT_MS, `the queue waited: its next turn came after ${tookMs} ms`);
}

/** The failure with which a Workflow ended. */
export async function failureOf(result: Promise<unknown>): Promise<Error> {
  const error = await result.then(
    () => assert.fail('the Workflow should have failed'),
    (error: unknown) => error,
  );
  assert.ok(error instanceof WorkflowFailedError, String(error));
  return error.cause ?? error;
}

export async function assertFails(
  result: Promise<unknown>,
  type: string,
  message: RegExp,
): Promise<ApplicationFailure> {
  const failure = await failureOf(result);
  assert.ok(failure instanceof ApplicationFailure, String(failure));
  assert.equal(failure.type, type);
  assert.match(failure.message, message);
  return failure;
}
