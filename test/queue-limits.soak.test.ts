import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { priorityOf } from '../src/shared/check';
import { permitId, queueId } from '../src/shared/permit-id';
import { ENQUEUE, PERMIT_WORKFLOW, QUEUE_WORKFLOW, type Ticket, TURN, type Turn } from '../src/shared/protocol';
import { QueueState } from '../src/workflows/queue/queue-state';
import { startHolding, startOptions } from './support/holders';
import { taskFailures } from './support/strangers';
import { assertNoPermitLeft, eventually, queueView, useTemporal } from './support/temporal';
import * as workflows from './support/workflows';

const temporal = useTemporal();

const WAITERS = 10_000;
const A_CROWD = 100;

/** How long they may take to line up, and to be served. */
const LINED_UP_WITHIN_MS = 10 * 60_000;
const SERVED_WITHIN_MS = 40 * 60_000;

test(`${WAITERS} waiters line up, and are served by priority, then by arrival`, async (t) => {
  const resource = temporal.resource();
  const { client } = temporal;
  const semaphore = { capacity: 10, fair: true, lease: '2 hours' } as const;
  const holders = await Promise.all(Array.from({ length: 10 }, () => startHolding(temporal, { resource, semaphore })));
  const fromMs = Date.now();
  const crowds = await Promise.all(
    Array.from({ length: WAITERS / A_CROWD }, (_, index) => {
      const acquire = { priority: { priorityKey: 1 + (index % 5) } };
      return client.workflow.start(workflows.crowd, {
        ...startOptions(temporal, 'crowd'),
        args: [{ resource, semaphore, acquire }, A_CROWD],
      });
    }),
  );
  const tickets = await eventually(async () => {
    const view = await queueView(client, resource);
    assert.equal(view?.tickets.length, WAITERS);
    return view.tickets;
  }, LINED_UP_WITHIN_MS);
  t.diagnostic(`all in line after ${seconds(fromMs)}`);

  const servingMs = Date.now();
  await Promise.all(holders.map(({ handle }) => handle.signal(workflows.finish)));
  await Promise.all([...holders.map(({ handle }) => handle), ...crowds].map((one) => one.result()));
  const servedMs = Date.now() - servingMs;
  t.diagnostic(`all served after ${seconds(servingMs)}: ${Math.round((1_000 * WAITERS) / servedMs)} a second`);
  assert.ok(servedMs < SERVED_WITHIN_MS);
  await assertNoPermitLeft(client, resource);

  const { turns, failures, runs } = await readQueue(resource);
  t.diagnostic(`${runs} runs of the queue, ${turns.length} turns`);
  assert.deepEqual(failures, []);
  const ticketOf = new Map(tickets.map((ticket) => [ticket.id, ticket]));
  const first = [...new Set(turns)].flatMap((id) => ticketOf.get(id) ?? []);
  assert.equal(first.length, WAITERS);
  for (const [index, ticket] of first.entries()) {
    const next = first[index + 1];
    assert.ok(!next || isBefore(ticket, next), `turn ${index + 2} belongs before turn ${index + 1}`);
  }
});

test(`a flood of ${WAITERS} tickets in 16 s: the worker lives, and the line answers within 10 s`, async (t) => {
  const resource = temporal.resource();
  const { client, taskQueue } = temporal;
  const permit = await client.workflow.start(PERMIT_WORKFLOW, {
    workflowId: permitId({ resource, slot: '0' }),
    taskQueue,
    args: [{ leaseMs: 3_600_000, holder: {} }],
  });
  const queue = await client.workflow.start(QUEUE_WORKFLOW, {
    workflowId: queueId(resource),
    taskQueue,
    args: [{ tickets: [ticketOfNobody(0)] }],
  });
  const line = client.workflow.getHandle(queue.workflowId); // whichever run
  const fromMs = Date.now();
  let sent = 1;
  const lane = async () => {
    for (let nth = sent++; nth < WAITERS; nth = sent++) {
      await delay(Math.max(0, fromMs + (16_000 * nth) / WAITERS - Date.now()));
      await eventually(() => line.signal(ENQUEUE, ticketOfNobody(nth))); // the server refuses some while the queue continues as new
    }
  };
  await Promise.all(Array.from({ length: 64 }, lane));
  t.diagnostic(`sent in ${seconds(fromMs)}`);
  const sentMs = Date.now();
  await eventually(async () => assert.equal((await queueView(client, resource))?.tickets.length, WAITERS));
  t.diagnostic(`all in line ${seconds(sentMs)} after the last was sent`);
  assert.ok(Date.now() - sentMs < 10_000, 'the line answers later than in 10 s');
  const { failures } = await readQueue(resource);
  assert.deepEqual(failures, []);
  await line.terminate();
  await permit.terminate();
});

test('a decision takes as long with 10,000 in line as with 1,000', (t) => {
  decisionMs(1_000); // until the code is warm
  const few = decisionMs(1_000);
  const many = decisionMs(WAITERS);
  t.diagnostic(`${(1_000 * few).toFixed(1)} µs with 1,000 in line, ${(1_000 * many).toFixed(1)} µs with 10,000`);
  assert.ok(many < 10 * few, 'it grows with the line');
});

/** From a slot's `closing` to the turn for it. */
function decisionMs(waiters: number): number {
  const state = new QueueState();
  for (let nth = 0; nth < waiters; nth++) state.enqueue(ticketOfNobody(nth));
  for (const command of state.next(0)) if (command.do === 'probe') state.probed(command.slot, true, 0);
  const fromMs = performance.now();
  const rounds = 500;
  for (let round = 0; round < rounds; round++) {
    state.closing({ slot: '0', runId: randomUUID() });
    const [command] = state.next(round);
    assert.equal(command?.do, 'offer');
  }
  return (performance.now() - fromMs) / rounds;
}

function ticketOfNobody(nth: number): Ticket {
  const waiter = { workflowId: `customer-order-${randomUUID()}`, runId: randomUUID() };
  return { id: randomUUID(), waiter, slots: 1, sinceMs: 1_000 + nth, priorityKey: 1 + (nth % 5) };
}

function isBefore(one: Ticket, other: Ticket): boolean {
  const later = priorityOf(other) - priorityOf(one);
  return later > 0 || (later === 0 && one.sinceMs <= other.sinceMs);
}

/** The turns of all runs of the queue, in order, and what went wrong in its Workflow Tasks. */
async function readQueue(resource: string): Promise<{ turns: string[]; failures: string[]; runs: number }> {
  const { client } = temporal;
  const found: { runId: string; startTime: Date }[] = [];
  for await (const run of client.workflow.list({ query: `WorkflowId = "${queueId(resource)}"` })) found.push(run);
  found.sort((one, other) => one.startTime.getTime() - other.startTime.getTime());
  const turns: string[] = [];
  for (const { runId } of found) {
    const { events } = await client.workflow.getHandle(queueId(resource), runId).fetchHistory();
    for (const { signalExternalWorkflowExecutionInitiatedEventAttributes: sent } of events ?? []) {
      if (sent?.signalName !== TURN) continue;
      const { ticketId, slot } = JSON.parse(Buffer.from(sent.input?.payloads?.[0]?.data ?? []).toString()) as Turn;
      if (slot !== undefined) turns.push(ticketId);
    }
  }
  return { turns, failures: await taskFailures(client, queueId(resource), found[0]?.runId), runs: found.length };
}

function seconds(sinceMs: number): string {
  return `${((Date.now() - sinceMs) / 1_000).toFixed(1)} s`;
}
