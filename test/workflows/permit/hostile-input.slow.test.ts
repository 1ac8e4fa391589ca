import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { type Permit, SemaphoreClient } from '../../../src/client';
import { mapConcurrently } from '../../../src/client/server/map-concurrently';
import { permitId, queueId, waiterId } from '../../../src/shared/permit-id';
import {
  ADOPT,
  CLOSING,
  DECLINED,
  ENQUEUE,
  MISSED,
  OVERRIDE,
  PERMIT_WORKFLOW,
  PREEMPT,
  PREEMPTIBLE,
  QUEUE_WORKFLOW,
  RELEASE,
  RENEW,
  REVOKE,
  TURN,
  WAITER_WORKFLOW,
  WATCH,
} from '../../../src/shared/protocol';
import {
  BAD_ANSWERS,
  BAD_CLOSINGS,
  BAD_DECLINED,
  BAD_HOLDERS,
  BAD_LEASES,
  BAD_MISSED,
  BAD_ORDERS,
  BAD_REASONS,
  BAD_TICKETS,
  NO_OBJECTS as NO_OBJECTS_AS_JSON,
  names,
  ODD_TICKETS,
  soundAnswer,
  soundTicket,
} from '../../support/malformed';
import { operatorOf } from '../../support/operators';
import { json, NOTHING, nested, send, start, taskFailures, UNDECODABLE } from '../../support/strangers';
import { eventually, queueView, until, untilWaiting, useTemporal } from '../../support/temporal';
import * as workflows from '../../support/workflows';

// `src/shared/wire-input.test.ts` has what each reader refuses. Here a Workflow of each type gets all of it, one after the other.
// No Workflow Task of it may fail, and an honest waiter is served without a look of its own (after 10 minutes).

const temporal = useTemporal({ shared: true });

const NO_OBJECTS = [NOTHING, ...NO_OBJECTS_AS_JSON];
const NO_MESSAGES = [...NO_OBJECTS, ...Object.values(UNDECODABLE)];

/** Twice: some mistakes show only when two tickets are compared. */
const twice = (tickets: unknown[]) => [...tickets, ...tickets.map(anew)];

function anew(ticket: unknown): unknown {
  const { id } = ticket as { id?: unknown };
  return typeof id === 'string' && id.length === 36 ? { ...(ticket as object), id: randomUUID() } : ticket;
}

const grown = { ...soundTicket({ slots: ['zz'] }), id: 'grown' };

const TO_QUEUE: Record<string, unknown[]> = {
  [ENQUEUE]: [
    ...twice(BAD_TICKETS),
    ...twice(ODD_TICKETS),
    ...Array.from({ length: 45 }, () => json(nested(5_000))),
    ...['a', 'b', 'c'].map((prefix) => soundTicket({ slots: names(prefix, 100, 150) })),
    grown,
    { ...grown, junk: 'j'.repeat(300_000) },
    { ...grown, slots: names('g', 200, 200) },
    ...Array.from({ length: 40 }, (_, n) => soundTicket({ slots: ['zz'], priorityKey: 10 + n })),
  ],
  [DECLINED]: [...BAD_DECLINED, { ticketId: '__proto__' }],
  [MISSED]: BAD_MISSED,
  [CLOSING]: [...BAD_CLOSINGS, ...Array.from({ length: 50 }, () => ({ slot: '0', runId: randomUUID() }))],
  [PREEMPTIBLE]: [
    ...BAD_ANSWERS,
    ...['0', '1', 'x'].map((slot) => soundAnswer({ slot, priorityKey: 9, givesWay: true })),
  ],
  [OVERRIDE]: BAD_ORDERS,
  nonsense: [{ a: 1 }],
  [TURN]: [{ queueId: 'permit-queue:x', ticketId: 'x', slot: '0' }],
};

const TO_PERMIT: Record<string, unknown[]> = {
  [WATCH]: [
    ...[5, {}, '', 'w'.repeat(1_001), 'a\u0000b', '\ud800', '__proto__', 'holder'].map((id) => ({ queueId: id })),
    { queueId: 'permit-queue:x', preempt: true },
    ...names('permit-queue:', 300).map((id) => ({ queueId: id })),
  ],
  [PREEMPT]: [{ priorityKey: 1 }, { priorityKey: 'x' }],
  [ADOPT]: [...BAD_HOLDERS.map((holder) => ({ holder })), json(`{"holder":{"identity":"i","junk":${nested(20_000)}}}`)],
  [RENEW]: BAD_LEASES.map((leaseMs) => ({ leaseMs })),
};

/** A Workflow that goes wrong goes on for ever. */
const BOUND = { timeout: 120_000 };

function prepared() {
  const { client, taskQueue } = temporal;
  const resource = temporal.resource();
  const options = { capacity: 1, taskQueue, lease: '10 minutes', recheckAfter: '10 minutes' } as const;
  const ids = { queue: queueId(resource), permit: permitId({ resource, slot: '0' }) };
  return { pool: new SemaphoreClient(client, resource, options), resource, ...ids };
}

/** A pool with a holder and an honest waiter in it. */
async function contended() {
  const made = prepared();
  const holder = await made.pool.acquire();
  const waiting = made.pool.acquire();
  await untilWaiting(temporal.client, made.resource, 1);
  return { ...made, holder, waiting };
}

async function sendAll(workflowId: string, messages: Record<string, unknown[]>): Promise<void> {
  const all = Object.entries(messages).flatMap(([signal, values]) =>
    [...NO_MESSAGES, ...values].map((value) => ({ signal, value })),
  );
  await mapConcurrently(all, async ({ signal, value }) => await send(temporal.client, workflowId, signal, value));
}

/** Also of the runs that it was continued as. */
async function assertNoTaskFailed(workflowId: string, runId?: string): Promise<void> {
  assert.deepEqual(await taskFailures(temporal.client, workflowId, runId), [], workflowId);
}

async function assertServed(holder: Permit, waiting: Promise<Permit>): Promise<void> {
  await holder.release();
  await (await waiting).release();
}

test('whatever is sent to a queue, it serves on, and remembers nothing of it', BOUND, async () => {
  const { resource, queue, holder, waiting } = await contended();
  const handle = temporal.client.workflow.getHandle(queue);
  const { runId } = await handle.describe();
  await sendAll(queue, TO_QUEUE);
  for (const args of [null, ...BAD_ORDERS]) {
    await assert.rejects(handle.executeUpdate(OVERRIDE, { args: [args] }), { name: 'WorkflowUpdateFailedError' });
  }
  await handle.cancel();
  await eventually(async () => {
    const { slots = [], override } = (await queueView(temporal.client, resource)) ?? {};
    assert.deepEqual([slots.map(([slot]) => slot), override], [['0'], undefined]);
  });
  await assertServed(holder, waiting);
  await assertNoTaskFailed(queue, runId);
});

test('whatever is sent to a permit, its holder renews and releases, and the next one is served', BOUND, async () => {
  const { permit, holder, waiting } = await contended();
  await sendAll(permit, TO_PERMIT);
  await holder.renew();
  await assertServed(holder, waiting);
  await assertNoTaskFailed(permit, holder.runId);
});

/** What a queue is started with by a stranger, before the first honest waiter comes. */
const QUEUE_STARTS = [
  ...NO_MESSAGES,
  { tickets: 5 },
  { tickets: 'abc' },
  { tickets: {} },
  { tickets: [null, 5] },
  { tickets: [], unanswered: 5 },
  ...[
    'x',
    5,
    { tickets: 5 },
    { tickets: [null] },
    { slots: 5 },
    { slots: [['0']] },
    { slots: [['0', { at: 'bogus' }]] },
    { slots: [['0', { at: 'offered', ticketId: 'x', untilMs: 9e15 }]] },
    { slots: [['0', { at: 'held', sinceMs: 0, probeAtMs: 9e15 }]] },
    { slots: [['a:b', { at: 'free' }]] },
    { shares: 5 },
    { shares: [[3]] },
    { override: 'x' },
    { override: { version: 1, slots: 1, paused: true } },
  ].map((view) => ({ tickets: [], view })),
];

test('whatever a queue is started with, it knows nothing of it, and ends when nobody waits', BOUND, async () => {
  await mapConcurrently(QUEUE_STARTS, async (input) => {
    const { queue } = prepared();
    const runId = await start(temporal.client, queue, QUEUE_WORKFLOW, temporal.taskQueue, input);
    await temporal.client.workflow.getHandle(queue, runId).result();
    await assertNoTaskFailed(queue, runId);
  });
});

test('an honest waiter is served by the queue that a stranger has started', BOUND, async () => {
  const { pool, resource, queue } = prepared();
  const holder = await pool.acquire();
  await start(temporal.client, queue, QUEUE_WORKFLOW, temporal.taskQueue, QUEUE_STARTS.at(-1));
  const waiting = pool.acquire();
  await untilWaiting(temporal.client, resource, 1);
  await assertServed(holder, waiting);
});

/** What a stranger's Workflow hands to our queue: each would end the worker, which other resources share. */
const FORGED_VIEWS: object[] = [
  { tickets: [{ ...soundTicket(), waiter: { workflowId: '\ud800' } }] },
  { tickets: [{ ...soundTicket(), waiter: { workflowId: 'w', runId: '\ud800' } }] },
  { slots: [['\ud800', { at: 'unseen' }]] },
  { slots: [['0', { at: 'drained', runId: '\ud800', renewAtMs: 0 }]] },
  { override: { version: 1, slots: ['\ud800'], paused: true } },
];

test('a queue whose memory a stranger has forged ends no worker', BOUND, async () => {
  await mapConcurrently(FORGED_VIEWS, async (forged) => {
    const { pool, resource, queue } = prepared();
    const holder = await pool.acquire();
    const { firstExecutionRunId } = await temporal.client.workflow.start(workflows.continuesAs, {
      workflowId: queue,
      taskQueue: temporal.taskQueue,
      args: [QUEUE_WORKFLOW, { tickets: [], view: { tickets: [], ...forged } }],
    });
    await until(async () => (await temporal.client.workflow.getHandle(queue).describe()).runId !== firstExecutionRunId);
    const waiting = pool.acquire();
    await untilWaiting(temporal.client, resource, 1);
    await assertServed(holder, waiting);
    await assertNoTaskFailed(queue, firstExecutionRunId);
  });
});

test(
  'a queue that the server starts again by a schedule knows nothing of what it was started with',
  BOUND,
  async () => {
    const { pool, queue } = prepared();
    const { client, taskQueue } = temporal;
    const view = { tickets: [], slots: [], shares: [], override: { version: 1, slots: 1, paused: true } };
    const { firstExecutionRunId } = await client.workflow.start(QUEUE_WORKFLOW, {
      workflowId: queue,
      taskQueue,
      cronSchedule: '@every 1s',
      args: [{ tickets: [], view }],
    });
    await eventually(async () => {
      const { runId, raw } = await client.workflow.getHandle(queue).describe();
      assert.ok(runId !== firstExecutionRunId && raw.workflowExecutionInfo?.historyLength?.toNumber());
      const { queue: seen, override } = await operatorOf(pool).inspect({ recent: 0 });
      assert.deepEqual([seen, override], ['running', undefined]);
    });
    await client.workflow.getHandle(queue).terminate();
  },
);

test('a permit or a waiter that is started with nonsense fails, and holds nothing', async () => {
  const resource = temporal.resource();
  const nonsense = [
    ...NO_MESSAGES,
    json('{"leaseMs":1e400}'),
    { leaseMs: 1e300 },
    { leaseMs: '9' },
    json('{"resource":"\\ud800","ticket":{"id":"x","slots":1,"sinceMs":1},"waitMs":60000,"recheckAfterMs":30000}'),
  ];
  const starts = nonsense.flatMap((input, n) => [
    { workflowId: permitId({ resource, slot: String(n) }), type: PERMIT_WORKFLOW, input },
    { workflowId: waiterId(resource, `${n}`), type: WAITER_WORKFLOW, input },
  ]);
  await mapConcurrently(starts, async ({ workflowId, type, input }) => {
    await start(temporal.client, workflowId, type, temporal.taskQueue, input);
    await assert.rejects(temporal.client.workflow.getHandle(workflowId).result(), { name: 'WorkflowFailedError' });
    await assertNoTaskFailed(workflowId);
  });
});

/** Starts a permit by hand for each row, sends it one signal, and checks how it ended. */
async function assertEnds(
  rows: { input?: unknown; memo?: Record<string, unknown>; value?: unknown }[],
  signal: string,
  outcome: string,
): Promise<void> {
  const resource = temporal.resource();
  await mapConcurrently([...rows.entries()], async ([n, { input = SOUND, memo, value = NOTHING }]) => {
    const id = permitId({ resource, slot: String(n) });
    await start(temporal.client, id, PERMIT_WORKFLOW, temporal.taskQueue, input, memo);
    await send(temporal.client, id, signal, value);
    assert.equal(await temporal.client.workflow.getHandle(id).result(), outcome);
    await assertNoTaskFailed(id);
  });
}

const SOUND = { leaseMs: 600_000, holder: { identity: 'x' } };

test('a permit whose holder, watcher or memo is nonsense is held, and released', async () => {
  const rows = [
    ...BAD_HOLDERS.map((holder) => ({ input: { ...SOUND, holder } })),
    ...[5, 'w'.repeat(1_001), '\ud800'].map((watchedBy) => ({ input: { ...SOUND, watchedBy } })),
    { memo: { holder: UNDECODABLE['broken JSON'] } },
  ];
  await assertEnds(rows, RELEASE, 'released');
});

test('a revocation takes effect whatever is sent as its reason', async () => {
  const reasons = [...BAD_REASONS, 'r'.repeat(1_900_000)].map((reason) => ({ reason }));
  const rows = [...NO_MESSAGES, ...reasons].map((value) => ({ value }));
  await assertEnds(rows, REVOKE, 'revoked');
});
