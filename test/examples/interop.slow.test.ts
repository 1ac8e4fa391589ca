import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { describe, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { ApplicationFailure, type WorkflowFailedError } from '@temporalio/client';
import { CancelledFailure, type Priority } from '@temporalio/common';
import { lacking } from '../../scripts/support/requirements';
import { permitId, queueId } from '../../src/shared/permit-id';
import { type PermitMemo, QUEUE_VIEW, type QueueView, REVOKE, TURN } from '../../src/shared/protocol';
import { WORKFLOW_PRIORITY } from '../../src/shared/request';

import { assertReleased } from '../support/holders';
import { type ForeignHolderInput, LANGUAGES, type Language, useOtherLanguages } from '../support/other-languages';
import { assertSafe, eventually, permitsRunning, until, useTemporal } from '../support/temporal';
import { finish, type HolderInput, holder } from '../support/workflows';

const temporal = useTemporal({ shared: true });

/** Once where there is a Python client. */
const PYTHON = LANGUAGES.filter((language) => language === 'Python');

function startTypeScript(input: HolderInput) {
  return temporal.client.workflow.start(holder, {
    workflowId: `TypeScript-${randomUUID()}`,
    taskQueue: temporal.taskQueue,
    args: [input],
  });
}

function foreignInput(resource: string, capacity: number, hold_ms: number, lease_ms = 30_000): ForeignHolderInput {
  return { pool: { resource, capacity, task_queue: temporal.taskQueue, lease_ms }, hold_ms };
}

async function untilWaiting(resource: string, count: number): Promise<void> {
  await eventually(async () => {
    const { tickets } = await temporal.client.workflow.getHandle(queueId(resource)).query<QueueView>(QUEUE_VIEW);
    assert.equal(tickets.length, count);
  }, 30_000);
}

/** Waits until the Workflow holds slot 0. @returns the permit, pinned to its run */
async function untilHolding(resource: string, workflowId: string) {
  return await eventually(async () => {
    const permit = await temporal.client.workflow.getHandle(permitId({ resource, slot: '0' })).describe();
    assert.equal(permit.status.name, 'RUNNING');
    assert.equal((permit.memo as unknown as PermitMemo).holder.workflowId, workflowId);
    return temporal.client.workflow.getHandle(permit.workflowId, permit.runId);
  }, 30_000);
}

async function turnsOf(workflowId: string): Promise<number> {
  const { events = [] } = await temporal.client.workflow.getHandle(workflowId).fetchHistory();
  return events?.filter((event) => event.workflowExecutionSignaledEventAttributes?.signalName === TURN).length ?? 0;
}

async function childrenOf(workflowId: string): Promise<number> {
  const { pendingChildren } = (await temporal.client.workflow.getHandle(workflowId).describe()).raw;
  return pendingChildren?.length ?? 0;
}

// A suite, because its hooks run one after the other with those of the file, and the workers need the server.
describe('in several languages', { skip: LANGUAGES.length === 0 && lacking('Python', 'Go') }, () => {
  const others = useOtherLanguages(temporal);

  function startForeign(language: Language, input: ForeignHolderInput, priority?: Priority) {
    return temporal.client.workflow.start<(input: ForeignHolderInput) => Promise<{ slot: string; run_id: string }>>(
      'PermitHolder',
      { workflowId: `${language}-${randomUUID()}`, taskQueue: others.taskQueues[language], args: [input], priority },
    );
  }

  test(`holders in TypeScript, ${LANGUAGES.join(' and ')}, and Python clients, share one pool`, async () => {
    const resource = temporal.resource();
    const semaphore = { capacity: 2 };
    const first = await Promise.all([1, 2].map(() => startTypeScript({ resource, semaphore })));
    for (const { workflowId } of first) await until(() => childrenOf(workflowId));

    const input = foreignInput(resource, 2, 150);
    const waiters = await Promise.all([
      ...[1, 2].map(() => startTypeScript({ resource, semaphore, holdMs: 150 })),
      ...LANGUAGES.flatMap((language) => [1, 2, 3].map(() => startForeign(language, input))),
    ]);
    await untilWaiting(resource, waiters.length);
    const clients = PYTHON.flatMap(() => [others.pythonClient(input), others.pythonClient(input)]);
    await Promise.all(first.map((handle) => handle.signal(finish)));
    const [clientHolds] = await Promise.all([
      Promise.all(clients),
      ...[...first, ...waiters].map((handle) => handle.result()),
    ]);

    const holds = await assertSafe(temporal.client, resource, 2, clientHolds);
    const expected = [...first, ...waiters].map((handle) => handle.workflowId);
    assert.deepEqual(
      holds.map((hold) => hold.holder).sort(),
      [...expected, ...clients.map(() => '')].sort(), // a client has no Workflow ID
      'each contender held once',
    );
    // On a busy machine, one may find its slot by a look of its own.
    const turns = await Promise.all(waiters.map(async ({ workflowId }) => await turnsOf(workflowId)));
    const inLine = turns.filter((count) => count > 0).length;
    assert.ok(inLine > waiters.length / 2, `${inLine} of ${waiters.length} were served in line`);
  });

  test(`holds in ${LANGUAGES.join(' and ')} outlast their lease by renewals`, async () => {
    const resource = temporal.resource();
    const holdMs = 6_000;
    const input = foreignInput(resource, 3, holdMs, 5_000); // renewed every 1.7 s, so a slow machine is in time, too
    const handles = await Promise.all(LANGUAGES.map((language) => startForeign(language, input)));
    const clientHolds = await Promise.all(PYTHON.map(() => others.pythonClient(input)));
    for (const handle of handles) {
      const { slot, run_id } = await handle.result();
      const permit = temporal.client.workflow.getHandle(permitId({ resource, slot }), run_id);
      await assertReleased(permit);
    }
    const holds = await assertSafe(temporal.client, resource, 3, clientHolds);
    assert.equal(holds.length, LANGUAGES.length + clientHolds.length);
    for (const { fromMs, toMs } of holds)
      assert.ok(toMs - fromMs >= holdMs * 0.99, `held for ${toMs - fromMs} ms only`);
  });

  for (const language of LANGUAGES) {
    test(`a waiter in ${language} that is cancelled gives up its place, and a holder its permit`, async () => {
      const resource = temporal.resource();
      const first = await startTypeScript({ resource, semaphore: { capacity: 1 } });
      await untilHolding(resource, first.workflowId);
      const [kept, left] = [
        await startForeign(language, foreignInput(resource, 1, 60_000)),
        await startForeign(language, foreignInput(resource, 1, 0)),
      ];
      await untilWaiting(resource, 2);
      await left.cancel();
      await assert.rejects(left.result(), (error: WorkflowFailedError) => error.cause instanceof CancelledFailure);
      await untilWaiting(resource, 1);

      await first.signal(finish);
      await first.result();
      const permit = await untilHolding(resource, kept.workflowId);
      await kept.cancel();
      await assert.rejects(kept.result(), (error: WorkflowFailedError) => error.cause instanceof CancelledFailure);
      await assertReleased(permit);
      assert.equal((await assertSafe(temporal.client, resource, 1)).length, 2);
    });

    test(`a waiter in ${language} claims no slot that is not its own, whatever a turn says`, async () => {
      const resource = temporal.resource();
      const first = await startTypeScript({ resource, semaphore: { capacity: 1 } });
      await untilHolding(resource, first.workflowId);
      const waiter = await startForeign(language, foreignInput(resource, 1, 0));
      await untilWaiting(resource, 1);
      const queue = temporal.client.workflow.getHandle(queueId(resource));
      const ticketId = (await queue.query<QueueView>(QUEUE_VIEW)).tickets[0]?.id;
      for (const [slot, capacity] of [['7'], ['-1'], ['00'], ['a:b'], ['7', 7]]) {
        await waiter.signal(TURN, { queueId: queueId(resource), ticketId, slot, capacity });
      }
      await delay(1_500);
      assert.deepEqual(await permitsRunning(temporal.client, resource), [permitId({ resource, slot: '0' })]);
      await first.signal(finish);
      await waiter.result();
      await assertSafe(temporal.client, resource, 1);
    });

    test(`permit and queue that a Workflow in ${language} starts do not have its low priority`, async () => {
      const resource = temporal.resource();
      const low = { priorityKey: 5, fairnessKey: 'low', fairnessWeight: 0.5 };
      const holder = await startForeign(language, foreignInput(resource, 1, 60_000), low);
      const permit = await untilHolding(resource, holder.workflowId);
      const waiter = await startForeign(language, foreignInput(resource, 1, 0), low);
      await untilWaiting(resource, 1);
      for (const run of [permit, temporal.client.workflow.getHandle(queueId(resource))]) {
        assert.deepEqual((await run.describe()).priority, WORKFLOW_PRIORITY, run.workflowId);
      }
      await waiter.cancel();
      await holder.cancel();
      await Promise.allSettled([holder.result(), waiter.result()]);
      await assertSafe(temporal.client, resource, 1);
    });

    test(`a holder in ${language} whose permit is revoked stops at once, and fails`, async () => {
      const resource = temporal.resource();
      const handle = await startForeign(language, foreignInput(resource, 1, 60_000));
      const permit = await untilHolding(resource, handle.workflowId);
      await permit.signal(REVOKE, { reason: 'node drain' });
      await assert.rejects(
        handle.result(),
        ({ cause }: WorkflowFailedError) => cause instanceof ApplicationFailure && cause.type === 'PermitLostError',
      );
      assert.equal(await permit.result(), 'revoked');
    });
  }
});
