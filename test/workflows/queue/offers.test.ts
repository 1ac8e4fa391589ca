import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { Client } from '@temporalio/client';
import type { HistoryEvent } from '../../../scripts/support/history-events';
import { SemaphoreClient } from '../../../src/client';
import { clientRequestOf, resolveClientAcquire, resolveClientSemaphore } from '../../../src/client/holder/options';
import { ClientQueuePlace } from '../../../src/client/holder/queue-place';
import { monotonicMs } from '../../../src/client/server/clock';
import { Server } from '../../../src/client/server/server';
import { permitId, waiterId } from '../../../src/shared/permit-id';
import type { AwaitTurnInput } from '../../../src/shared/protocol';
import { DECLINED, WAITER_WORKFLOW } from '../../../src/shared/protocol';
import { CONTENDED_TIMEOUT_MS, OFFER_TIMEOUT_MS } from '../../../src/workflows/queue/offer-timeouts';
import { assertPassedOn, startHolder, startHolding, startOptions } from '../../support/holders';
import { assertSafe, eventually, queueView, untilWaiting, useTemporal } from '../../support/temporal';
import * as workflows from '../../support/workflows';

const temporal = useTemporal({ shared: true });

const isDeclined = ({ workflowExecutionSignaledEventAttributes: signal }: HistoryEvent) =>
  signal?.signalName === DECLINED;

test('a Workflow that leaves between its turn and its claim passes the slot on at once', async () => {
  const resource = temporal.resource();
  const semaphore = { capacity: 1 };
  const first = await startHolding(temporal, { resource, semaphore });
  const leaver = await temporal.client.workflow.start(workflows.offerLeaver, {
    ...startOptions(temporal, 'leaver'),
    args: [resource],
  });
  await untilWaiting(temporal.client, resource, 1);
  const next = await startHolder(temporal, { resource, semaphore, holdMs: 0 });
  await untilWaiting(temporal.client, resource, 2);
  await first.handle.signal(workflows.finish);
  assert.equal(await leaver.result(), '0');
  await next.result();
  await assertPassedOn(temporal.client, resource, isDeclined);
  await assertSafe(temporal.client, resource, 1);
});

test('a client that is aborted between its turn and its claim passes the slot on at once', async () => {
  // If the client hears of its turn late, as on a busy machine, the queue may have passed the slot on already: then try again.
  let resource: string;
  do resource = temporal.resource();
  while ((await abortAtTurn(resource)) >= CONTENDED_TIMEOUT_MS / 2);
  await assertPassedOn(temporal.client, resource, isDeclined);
});

/** A client waits before another waiter, and is aborted when it claims its slot. @returns how long after the release, in milliseconds */
async function abortAtTurn(resource: string): Promise<number> {
  const options = { capacity: 1, taskQueue: temporal.taskQueue };
  const first = await new SemaphoreClient(temporal.client, resource, options).acquire();
  const stop = new AbortController();
  let claims = 0;
  let claimedAtMs = 0;
  const { connection } = temporal.client;
  const client = new Client({
    connection,
    interceptors: {
      workflow: [
        {
          async start(input, next) {
            const isClaim = input.options.workflowId === permitId({ resource, slot: '0' });
            if (!isClaim || ++claims === 1) return await next(input);
            claimedAtMs = monotonicMs();
            stop.abort(new Error('enough'));
            throw Object.assign(new Error('14 UNAVAILABLE'), { code: 14, details: 'UNAVAILABLE', metadata: {} });
          },
        },
      ],
    },
  });
  const aborted = new SemaphoreClient(client, resource, options).acquire({ signal: stop.signal });
  const rejected = assert.rejects(aborted, /enough/);
  await untilWaiting(temporal.client, resource, 1);
  const next = await startHolder(temporal, { resource, semaphore: { capacity: 1 }, holdMs: 0 });
  await untilWaiting(temporal.client, resource, 2);
  const releasedAtMs = monotonicMs();
  await first.release();
  await rejected;
  await next.result();
  assert.equal(claims, 2);
  await assertSafe(temporal.client, resource, 1, []);
  return claimedAtMs - releasedAtMs;
}

test("a client's ticket stays in the queue when one waiter takes over from another, and leaves it at the end", async () => {
  const resource = temporal.resource();
  const options = { capacity: 1, taskQueue: temporal.taskQueue, fair: true };
  const permit = await new SemaphoreClient(temporal.client, resource, options).acquire();
  const server = new Server(temporal.client);
  const shift = { waitMs: 4_000, overlapMs: 2_000 };
  const fair = resolveClientSemaphore(resource, options);
  const caller = { sinceMs: Date.now(), ...server.caller };
  const request = clientRequestOf(fair, resolveClientAcquire(fair, {}), caller, monotonicMs());
  const place = new ClientQueuePlace(server, request, monotonicMs() + 60_000, shift);
  assert.equal(await place.join(), false);
  const heard = place.next(60_000);
  await untilWaiting(temporal.client, resource, 1);

  const waiters = new Map<string, string>();
  while (waiters.size < 3) {
    const view = await queueView(temporal.client, resource);
    assert.equal(view?.tickets.length, 1, `no ticket after that of ${waiters.size} waiters`);
    const { workflowId, runId } = view?.tickets[0]?.waiter ?? assert.fail();
    waiters.set(runId ?? '', workflowId);
    await delay(100);
  }
  const [[runId, workflowId] = assert.fail()] = waiters;
  await temporal.client.workflow.getHandle(workflowId, runId).result(); // it ends, and takes nothing along
  assert.equal((await queueView(temporal.client, resource))?.tickets.length, 1);

  await permit.release();
  assert.deepEqual(await heard, {
    slot: '0',
    queueId: `permit-queue:${resource}`,
    capacity: undefined,
    others: undefined,
  });
  await place.leave();
  await eventually(async () => assert.equal(await queueView(temporal.client, resource), undefined));
  await assertSafe(temporal.client, resource, 1, []);
});

test('a waiter behind twelve whose clients have died is served before a turn is too old three times', async () => {
  const resource = temporal.resource();
  const { client, taskQueue } = temporal;
  const holder = await new SemaphoreClient(client, resource, { capacity: 1, taskQueue }).acquire();
  const waiters = Array.from({ length: 12 }, async (_, n) => {
    const ticket = { id: `dead-${n}`, slots: 1, sinceMs: 0, identity: `gone-${n}@host` };
    const input: AwaitTurnInput = { resource, ticket, waitMs: 120_000, recheckAfterMs: 30_000 };
    return await client.workflow.start(WAITER_WORKFLOW, {
      workflowId: waiterId(resource, `${n}`),
      taskQueue,
      args: [input],
    });
  });
  const dead = await Promise.all(waiters);
  await untilWaiting(client, resource, 12);
  const live = await startHolder(temporal, { resource, semaphore: { capacity: 1 }, holdMs: 0 });
  await untilWaiting(client, resource, 13);
  const fromMs = monotonicMs();
  await holder.release();
  await live.result();
  const tookMs = monotonicMs() - fromMs;
  assert.ok(tookMs < 3 * OFFER_TIMEOUT_MS, `served after ${tookMs} ms`);
  await Promise.all(dead.map((waiter) => waiter.result()));
});
