import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { SemaphoreClient } from '../src/client';
import { ADOPT } from '../src/shared/adoption-protocol';
import { OVERRIDE } from '../src/shared/operator-protocol';
import { permitId, queueId, waiterId } from '../src/shared/permit-id';
import { PREEMPT, PREEMPTIBLE } from '../src/shared/preemption-protocol';
import {
  CLOSING,
  DECLINED,
  ENQUEUE,
  MISSED,
  PERMIT_WORKFLOW,
  QUEUE_WORKFLOW,
  RELEASE,
  RENEW,
  REVOKE,
  type Ticket,
  TURN,
  WAITER_WORKFLOW,
  WATCH,
} from '../src/shared/protocol';
import { json, NOTHING, nested, send, start, taskFailures, UNCONVERTIBLE, UNDECODABLE } from './support/strangers';
import { eventually, queueView, untilWaiting, useTemporal } from './support/temporal';

// What anyone in the namespace can send: other versions, other languages, other codecs, and mistakes. Each row gets a pool
// of its own, with a holder and an honest waiter in it. Whatever was sent, no Workflow Task may fail, and once the holder
// releases, the waiter is served without a look of its own (which it would take after 10 minutes).

const temporal = useTemporal();

/** How soon the honest waiter must be served, on a machine that does other things too. */
const SERVED_WITHIN_MS = 30_000;
const LANES = 4;

interface Pool {
  resource: string;
  queue: string;
  permit: string;
  /** The honest waiter's. */
  ticket: Ticket;
}

type Attack = (pool: Pool) => Promise<void>;

const ghost = () => ({ workflowId: `ghost-${randomUUID()}`, runId: randomUUID() });
const ticket = (fields: object = {}) => ({ id: randomUUID(), waiter: ghost(), slots: 1, sinceMs: 1, ...fields });
/** A ticket as JSON text, with a field that JavaScript can't write. */
const ticketWith = (field: string, text: string) =>
  json(`${JSON.stringify({ ...ticket(), [field]: undefined }).slice(0, -1)},${JSON.stringify(field)}:${text}}`);
const names = (prefix: string, count: number, length = 0) =>
  Array.from({ length: count }, (_, n) => `${prefix}${n}`.padEnd(length, 'x'));

const toQueue =
  (signal: string, ...values: unknown[]): Attack =>
  async ({ queue }) => {
    for (const value of values) await send(temporal.client, queue, signal, value);
  };
const toPermit =
  (signal: string, ...values: unknown[]): Attack =>
  async ({ permit }) => {
    for (const value of values) await send(temporal.client, permit, signal, value);
  };

const NO_OBJECTS = [NOTHING, null, 5, 'x', true, [], {}];

/** Values of a ticket's fields, each sent in a ticket that is sound otherwise. */
const TICKET_FIELDS: Record<string, unknown[]> = {
  maxWaiting: [-1, 1.5, '1', {}, true],
  id: ['', 5, '__proto__', 'i'.repeat(200_000), '\n\u001b[31m', null],
  waiter: [
    null,
    'x',
    { workflowId: '' },
    { workflowId: 'w'.repeat(1_001), runId: randomUUID() },
    { workflowId: 'a\u0000b', runId: randomUUID() },
    { workflowId: 'ghost', runId: 'no UUID' },
    { workflowId: 'ghost', runId: '' },
    { workflowId: 'ghost', runId: null },
    { workflowId: 'ghost', runId: randomUUID().toUpperCase() },
  ],
  slots: [0, -1, 1_001, 1.5, '3', null, [], ['0', '0'], ['a:b'], [''], [null], ['\n'], ['\u202e'], ['x'.repeat(255)]],
  sinceMs: [-1e308, 1e308, '5', null, 8.64e15 + 1],
  priorityKey: [-1_000, -1e9, 'x', {}, [], 1e308, 2.5, true, '__proto__', UNCONVERTIBLE, '\u001b[31m'],
  fairnessKey: [5, {}, 'k'.repeat(100_000), '__proto__', 'constructor', UNCONVERTIBLE],
  fairnessWeight: [-5, 1e308, 1e-308, 'abc', 'heavy', [], [1, 2], UNCONVERTIBLE],
  identity: [5, {}, 'i'.repeat(500_000)],
  answer: ['x', {}],
};

const QUEUE_ATTACKS: Record<string, Attack> = {
  'no ticket at all': toQueue(ENQUEUE, ...NO_OBJECTS),
  'declined that is none': toQueue(DECLINED, ...NO_OBJECTS, { ticketId: {} }, { ticketId: '__proto__' }),
  'missed that is none': toQueue(MISSED, ...NO_OBJECTS, { ticket: 5, slot: '0' }, { ticket: ticket(), slot: {} }),
  'closing that is none': toQueue(
    CLOSING,
    ...NO_OBJECTS,
    { slot: '', runId: 'x' },
    { slot: 5, runId: 5 },
    { slot: '0', runId: 'x'.repeat(100_000) },
  ),
  'answers that are none, and forged ones': toQueue(
    PREEMPTIBLE,
    ...NO_OBJECTS,
    { slot: '0' },
    ...[0, -1, 'x', 1e300].map((graceMs) => ({ slot: '0', runId: randomUUID(), graceMs, priorityKey: 5 })),
    ...[0, -1, 'x', 1.5].map((priorityKey) => ({ slot: '0', runId: randomUUID(), graceMs: 5, priorityKey })),
    ...['0', '1', 'x', ''].map((slot) => ({ slot, runId: randomUUID(), graceMs: 5, priorityKey: 9, givesWay: true })),
  ),
  'fifty forged closings': toQueue(CLOSING, ...Array.from({ length: 50 }, () => ({ slot: '0', runId: randomUUID() }))),
  'a signal that nobody knows, and one for waiters': async (pool) => {
    await toQueue('nonsense', { a: 1 })(pool);
    await toQueue(TURN, { queueId: pool.queue, ticketId: 'x', slot: '0' })(pool);
  },
  'a cancel request': async ({ queue }) => {
    await temporal.client.workflow.getHandle(queue).cancel();
  },
  'half a character in an ID': toQueue(ENQUEUE, ticketWith('waiter', '{"workflowId":"\\ud800"}')),
  'half a character in a key': toQueue(ENQUEUE, ticketWith('fairnessKey', '"\\ud800"')),
  'numbers beyond numbers': toQueue(
    ENQUEUE,
    ...['sinceMs', 'priorityKey', 'fairnessWeight'].map((field) => ticketWith(field, '1e400')),
    ticketWith('priorityKey', '-1e400'),
  ),
  'forty-five deep signals that are no tickets': toQueue(
    ENQUEUE,
    ...Array.from({ length: 45 }, () => json(nested(5_000))),
  ),
  'an unknown field, 20,000 deep': toQueue(ENQUEUE, ticketWith('junk', nested(20_000))),
  'a known field, 20,000 deep': toQueue(ENQUEUE, ticketWith('identity', nested(20_000))),
  'a ticket ID, 20,000 deep': toQueue(DECLINED, json(`{"ticketId":${nested(20_000)}}`)),
  'three tickets of 1,000 names each': toQueue(
    ENQUEUE,
    ...['a', 'b', 'c'].map((prefix) => ticket({ slots: names(prefix, 1_000) })),
  ),
  'six tickets of 1,000 long names each': toQueue(
    ENQUEUE,
    ...['a', 'b', 'c', 'd', 'e', 'f'].map((prefix) => ticket({ slots: names(prefix, 1_000, 150) })),
  ),
  'a known ticket, sent again larger': async (pool) => {
    const grown = { ...ticket({ slots: ['zz'] }), id: 'grown' };
    await toQueue(ENQUEUE, grown, { ...grown, junk: 'j'.repeat(1_500_000) })(pool);
    await toQueue(
      ENQUEUE,
      { ...grown, slots: names('g', 1_000, 200) },
      { ...grown, slots: names('h', 1_000, 200) },
    )(pool);
  },
  'three hundred priorities': async ({ queue }) => {
    for (let n = 0; n < 300; n += 50) {
      await Promise.all(
        names('', 50).map((_, m) =>
          send(temporal.client, queue, ENQUEUE, ticket({ slots: ['zz'], priorityKey: 10 + n + m })),
        ),
      );
    }
  },
  'malformed orders of an operator': async ({ queue }) => {
    const orders = [
      null,
      {},
      { slots: 1 },
      { slots: 1, capacity: 0 },
      { slots: 1, capacity: 1e9 },
      { slots: 1, capacity: '1' },
      { slots: ['a'], capacity: 2 },
      { slots: 1, paused: 'x' },
      { slots: 1, paused: true, ifVersion: -1 },
      { slots: 1, paused: true, reason: 5 },
      { slots: 1, paused: true, reason: 'r'.repeat(1_900_000) },
      { slots: 1, pauseUntilMs: '5' },
      { slots: 1, pauseUntilMs: 1.5 },
      { slots: 1, pauseUntilMs: 9e15 },
      { slots: 1, pauseUntilMs: null },
      { slots: 1, pauseUntilMs: 4e12, paused: true },
      { slots: 1, pauseUntilMs: 4e12, capacity: 2 },
    ];
    for (const order of orders) await send(temporal.client, queue, OVERRIDE, order);
    for (const args of orders) {
      await assert.rejects(temporal.client.workflow.getHandle(queue).executeUpdate(OVERRIDE, { args: [args] }));
    }
  },
};

const PERMIT_ATTACKS: Record<string, Attack> = {
  'watch that is none': toPermit(
    WATCH,
    ...NO_OBJECTS,
    ...[5, {}, '', 'w'.repeat(1_001), 'a\u0000b', '__proto__', 'holder'].map((id) => ({ queueId: id })),
  ),
  'preempt of one that did not opt in': toPermit(PREEMPT, ...NO_OBJECTS, { priorityKey: 1 }, { priorityKey: 'x' }),
  'watch that asks, of one that did not opt in': toPermit(WATCH, { queueId: 'permit-queue:x', preempt: true }),
  'half a character in the ID of a watcher': toPermit(WATCH, json('{"queueId":"\\ud800"}')),
  'half a character in the ID of an adopter': toPermit(ADOPT, json('{"holder":{"workflowId":"\\ud800"}}')),
  'three hundred strangers that watch': async ({ permit }) => {
    for (let n = 0; n < 300; n += 50) {
      await Promise.all(
        names(`permit-queue:${n}-`, 50).map((id) => send(temporal.client, permit, WATCH, { queueId: id })),
      );
    }
  },
  'adopt that is none': toPermit(
    ADOPT,
    ...NO_OBJECTS,
    ...[null, 5, 'x', [], { workflowId: 'w', runId: 'no' }, { workflowId: 5 }].map((holder) => ({ holder })),
    { holder: { identity: 'i'.repeat(1_900_000) } },
    json(`{"holder":{"identity":"i","junk":${nested(20_000)}}}`),
  ),
  'renew with something in it': toPermit(
    RENEW,
    ...NO_OBJECTS,
    ...[0, -1, '5', 1e300, null, {}].map((leaseMs) => ({ leaseMs })),
  ),
};

for (const [field, values] of Object.entries(TICKET_FIELDS)) {
  // Twice: some mistakes show only when two tickets are compared.
  const tickets = [...values, ...values].map((value) => ticket({ [field]: value }));
  QUEUE_ATTACKS[`tickets with a bad ${field}`] = toQueue(ENQUEUE, ...tickets);
}
for (const [what, payload] of Object.entries(UNDECODABLE)) {
  QUEUE_ATTACKS[`undecodable: ${what}`] = async (pool) => {
    for (const signal of [ENQUEUE, MISSED, DECLINED, CLOSING, PREEMPTIBLE]) await toQueue(signal, payload)(pool);
  };
  PERMIT_ATTACKS[`undecodable: ${what}`] = async (pool) => {
    for (const signal of [WATCH, ADOPT, RENEW]) await toPermit(signal, payload)(pool);
  };
}

/** What a queue is started with by a stranger, before the first honest waiter comes. */
const QUEUE_STARTS: Record<string, unknown> = {
  ...Object.fromEntries(NO_OBJECTS.map((value, n) => [`no object ${n + 1}`, value])),
  ...UNDECODABLE,
  ...Object.fromEntries(
    [
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
    ].map((input) => [JSON.stringify(input), input]),
  ),
};

interface Prepared {
  pool: SemaphoreClient;
  resource: string;
}

function prepared(): Prepared {
  const resource = temporal.resource();
  const { client, taskQueue } = temporal;
  return {
    resource,
    pool: new SemaphoreClient(client, resource, {
      capacity: 1,
      taskQueue,
      lease: '10 minutes',
      recheckAfter: '10 minutes',
    }),
  };
}

/** What is wrong after the attack; nothing if an honest waiter is served and no task has failed. */
async function afterAttack({ pool, resource }: Prepared, attack: Attack): Promise<string[]> {
  const holder = await pool.acquire({ timeout: '30s' });
  const waiting = pool.acquire({ timeout: '2 minutes' });
  waiting.catch(() => undefined);
  const { tickets } = await untilWaiting(temporal.client, resource, 1);
  const [queue, permit] = [queueId(resource), permitId({ resource, slot: '0' })];
  const queueRunId = (await temporal.client.workflow.getHandle(queue).describe()).runId;
  await attack({ resource, queue, permit, ticket: tickets[0] ?? assert.fail() });
  await delay(300);
  return await releasedAndServed(holder, waiting, { [queue]: queueRunId, [permit]: holder.runId });
}

async function releasedAndServed(
  holder: { release(): Promise<void> },
  waiting: ReturnType<SemaphoreClient['acquire']>,
  runs: Record<string, string>,
): Promise<string[]> {
  const releasedMs = Date.now();
  const late = Symbol('late');
  const released = await Promise.race([holder.release(), delay(SERVED_WITHIN_MS, late)]);
  const served = await Promise.race([waiting.catch(String), delay(SERVED_WITHIN_MS, late)]);
  const tookMs = Date.now() - releasedMs;
  const problems: string[] = [];
  if (released === late) problems.push(`the release took more than ${SERVED_WITHIN_MS} ms`);
  if (served === late) problems.push(`the waiter was not served in ${tookMs} ms`);
  else if (typeof served === 'string') problems.push(served);
  for (const [workflowId, runId] of Object.entries(runs)) {
    for (const failure of await taskFailures(temporal.client, workflowId, runId))
      problems.push(`${workflowId}: ${failure}`);
    if (problems.length > 0)
      await temporal.client.workflow
        .getHandle(workflowId)
        .terminate()
        .catch(() => undefined);
  }
  const permit = await waiting.catch(() => undefined);
  await permit?.release();
  return problems;
}

/** Runs every row, a few at a time, and names all that went wrong. */
async function mapConcurrently<T>(
  rows: Record<string, T>,
  run: (row: T, name: string) => Promise<string[]>,
): Promise<void> {
  const left = Object.entries(rows);
  const wrong: string[] = [];
  const lane = async () => {
    for (let next = left.shift(); next; next = left.shift()) {
      const [name, row] = next;
      for (const problem of await run(row, name)) wrong.push(`${name}: ${problem}`);
    }
  };
  await Promise.all(Array.from({ length: LANES }, lane));
  assert.deepEqual(wrong, []);
}

test('whatever is sent to a queue, it serves on', async () => {
  await mapConcurrently(QUEUE_ATTACKS, (attack) => afterAttack(prepared(), attack));
});

test('whatever is sent to a permit, its holder renews and releases, and the next one is served', async () => {
  await mapConcurrently(PERMIT_ATTACKS, (attack) => afterAttack(prepared(), attack));
});

test('whatever a queue is started with, an honest waiter is served', async () => {
  await mapConcurrently(QUEUE_STARTS, async (input) => {
    const { pool, resource } = prepared();
    const holder = await pool.acquire({ timeout: '30s' });
    const queue = queueId(resource);
    const runId = await start(temporal.client, queue, QUEUE_WORKFLOW, temporal.taskQueue, input);
    const waiting = pool.acquire({ timeout: '2 minutes' });
    waiting.catch(() => undefined);
    await untilWaiting(temporal.client, resource, 1);
    return await releasedAndServed(holder, waiting, { [queue]: runId });
  });
});

test('a permit or a waiter that is started with nonsense fails, and holds nothing', async () => {
  const resource = temporal.resource();
  const nonsense = [
    ...NO_OBJECTS,
    ...Object.values(UNDECODABLE),
    json('{"leaseMs":1e400}'),
    { leaseMs: 1e300 },
    { leaseMs: '9' },
  ];
  for (const [n, input] of nonsense.entries()) {
    const ids = {
      [permitId({ resource, slot: String(n) })]: PERMIT_WORKFLOW,
      [waiterId(resource, `${n}`)]: WAITER_WORKFLOW,
    };
    for (const [workflowId, type] of Object.entries(ids)) {
      await start(temporal.client, workflowId, type, temporal.taskQueue, input);
      await assert.rejects(temporal.client.workflow.getHandle(workflowId).result());
      assert.deepEqual(await taskFailures(temporal.client, workflowId), []);
    }
  }
  const halfCharacter = json(
    '{"resource":"\\ud800","ticket":{"id":"x","slots":1,"sinceMs":1},"waitMs":60000,"recheckAfterMs":30000}',
  );
  const waiter = waiterId(resource, 'half');
  await start(temporal.client, waiter, WAITER_WORKFLOW, temporal.taskQueue, halfCharacter);
  await assert.rejects(temporal.client.workflow.getHandle(waiter).result());
});

test('a permit whose holder, watcher or memo is nonsense is held, and released', async () => {
  const resource = temporal.resource();
  const sound = { leaseMs: 600_000, holder: { identity: 'x' } };
  const odd: [unknown, Record<string, unknown>?][] = [
    [{ ...sound, holder: null }],
    [{ ...sound, holder: 5 }],
    [{ ...sound, holder: { workflowId: {}, runId: 5 } }],
    [{ ...sound, watchedBy: 5 }],
    [{ ...sound, watchedBy: 'w'.repeat(1_001) }],
    [json('{"leaseMs":600000,"holder":{},"watchedBy":"\\ud800"}')],
    [sound, { holder: UNDECODABLE['broken JSON'] }],
  ];
  for (const [n, [input, memo]] of odd.entries()) {
    const id = permitId({ resource, slot: String(n) });
    await start(temporal.client, id, PERMIT_WORKFLOW, temporal.taskQueue, input, memo);
    await send(temporal.client, id, RELEASE, NOTHING);
    assert.equal(await temporal.client.workflow.getHandle(id).result(), 'released');
    assert.deepEqual(await taskFailures(temporal.client, id), []);
  }
});

test('a revocation takes effect whatever is sent as its reason', async () => {
  const resource = temporal.resource();
  const reasons = [NOTHING, null, 5, { reason: {} }, { reason: 5 }, { reason: 'r'.repeat(1_900_000) }];
  for (const [n, reason] of [...reasons, ...Object.values(UNDECODABLE)].entries()) {
    const id = permitId({ resource, slot: String(n) });
    const input = { leaseMs: 600_000, holder: { identity: 'x' } };
    await start(temporal.client, id, PERMIT_WORKFLOW, temporal.taskQueue, input);
    await send(temporal.client, id, REVOKE, reason);
    assert.equal(await temporal.client.workflow.getHandle(id).result(), 'revoked');
    assert.deepEqual(await taskFailures(temporal.client, id), []);
  }
});

test('slot names that nobody uses any more do not stay in the memory of a queue', async () => {
  const { pool, resource } = prepared();
  const holder = await pool.acquire();
  const waiting = pool.acquire({ timeout: '2 minutes' });
  await untilWaiting(temporal.client, resource, 1);
  for (let n = 0; n < 10; n++) {
    const one = ticket({ slots: names(`n${n}-`, 500) });
    await send(temporal.client, queueId(resource), ENQUEUE, one);
    await send(temporal.client, queueId(resource), DECLINED, { ticketId: one.id });
  }
  await eventually(async () => {
    const { slots = [] } = (await queueView(temporal.client, resource)) ?? {};
    assert.deepEqual(
      slots.map(([slot]) => slot),
      ['0'],
    );
  });
  await holder.release();
  await (await waiting).release();
});
