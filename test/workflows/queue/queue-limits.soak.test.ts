import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import type { HistoryEvent } from '../../../scripts/support/history-events';
import { permitId, queueId } from '../../../src/shared/permit-id';
import { priorityOf } from '../../../src/shared/priority';
import {
  CLOSING,
  type ClosingNotice,
  DECLINED,
  type DeclinedNotice,
  ENQUEUE,
  MISSED,
  type MissedNotice,
  PERMIT_WORKFLOW,
  QUEUE_WORKFLOW,
  RELEASE,
  type Ticket,
  TURN,
  type Turn,
  WATCH,
} from '../../../src/shared/protocol';
import { QueueState } from '../../../src/workflows/queue/queue-state';
import { startOptions } from '../../support/holders';
import { taskFailures } from '../../support/strangers';
import { assertNoPermitLeft, eventually, queueView, useTemporal } from '../../support/temporal';
import * as workflows from '../../support/workflows';

const temporal = useTemporal();

const WAITERS = 10_000;
const A_CROWD = 100;

/** How long they may take to line up, and to be served. */
const LINED_UP_WITHIN_MS = 10 * 60_000;
const SERVED_WITHIN_MS = 40 * 60_000;

test(`${WAITERS} waiters line up, and are served by priority, then by arrival`, async (t) => {
  const resource = temporal.resource();
  const { client } = temporal;
  const semaphore = { capacity: 10, fair: true } as const;
  // Started by hand: a holder that has lined up keeps its ticket, and a line takes no more than 10,000.
  const held = await Promise.all(Array.from({ length: 10 }, (_, slot) => startPermit(resource, String(slot))));
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
  await Promise.all(held.map((permit) => permit.signal(RELEASE)));
  await Promise.all(crowds.map((crowd) => crowd.result()));
  const servedMs = Date.now() - servingMs;
  t.diagnostic(`all served after ${seconds(servingMs)}: ${Math.round((1_000 * WAITERS) / servedMs)} a second`);
  assert.ok(servedMs < SERVED_WITHIN_MS);
  await assertNoPermitLeft(client, resource);

  const { turns, failures, histories } = await readQueue(resource, new Map(tickets.map((it) => [it.id, it])));
  assert.deepEqual(failures, []);
  const had = new Set<Ticket>();
  const first = turns.filter(({ ticket }) => !had.has(ticket) && had.add(ticket));
  assert.equal(first.length, WAITERS);
  let passedOver = 0;
  for (const [index, { ticket, silent }] of first.entries()) {
    for (const { ticket: later } of first.slice(index + 1)) {
      if (isBefore(ticket, later)) continue;
      if (!silent.has(later.waiter.workflowId)) {
        const record = await keepRecord({ ticket, later, silent: [...silent], tickets, histories });
        assert.fail(`turn ${index + 1}, of ${ticket.id}, was not due yet: ${later.id} came first. See ${record}`);
      }
      passedOver++;
    }
  }
  t.diagnostic(`${histories.length} runs of the queue, ${turns.length} turns`);
  t.diagnostic(
    `${passedOver} times a waiter was passed over whose Workflow had let a turn pass and sent no word since`,
  );
});

test(`a flood of ${WAITERS} tickets in 16 s: the worker lives, and the line answers within 10 s`, async (t) => {
  const resource = temporal.resource();
  const { client, taskQueue } = temporal;
  const permit = await startPermit(resource, '0');
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

async function startPermit(resource: string, slot: string) {
  return await temporal.client.workflow.start(PERMIT_WORKFLOW, {
    workflowId: permitId({ resource, slot }),
    taskQueue: temporal.taskQueue,
    args: [{ leaseMs: 3_600_000, holder: {} }],
  });
}

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

interface GivenTurn {
  readonly ticket: Ticket;
  /** Workflows that had let a turn pass, and had sent no word since: all others come before them. */
  readonly silent: ReadonlySet<string>;
}

/** The turns that all runs of the queue gave to these tickets, in order, and what went wrong in its Workflow Tasks. */
async function readQueue(
  resource: string,
  tickets: ReadonlyMap<string, Ticket> = new Map(),
): Promise<{ turns: GivenTurn[]; failures: string[]; histories: HistoryEvent[][] }> {
  const { client } = temporal;
  const found: { runId: string; startTime: Date }[] = [];
  for await (const run of client.workflow.list({ query: `WorkflowId = "${queueId(resource)}"` })) found.push(run);
  found.sort((one, other) => one.startTime.getTime() - other.startTime.getTime());
  const follow = follower(tickets);
  const histories: HistoryEvent[][] = [];
  for (const { runId } of found) {
    const { events } = await client.workflow.getHandle(queueId(resource), runId).fetchHistory();
    histories.push(events ?? []);
  }
  return {
    turns: histories.flatMap(follow),
    failures: await taskFailures(client, queueId(resource), found[0]?.runId),
    histories,
  };
}

/** Keeps what a failed check has read, since the run took half an hour. @returns the file */
async function keepRecord(record: object): Promise<string> {
  const file = join(await mkdtemp(join(tmpdir(), 'queue-limits-')), 'record.json');
  await writeFile(file, JSON.stringify(record));
  return file;
}

/** Reads run after run, and follows whose turn the queue found overdue. */
function follower(tickets: ReadonlyMap<string, Ticket>): (events: readonly HistoryEvent[]) => GivenTurn[] {
  /** By slot: the ticket that has a turn for it, and the Workflow Task that gave it. */
  const offered = new Map<string, { ticket: Ticket; task: string }>();
  /** These have lost their place: a turn of theirs was overdue, or one of several for one slot. */
  const dropped = new Set<string>();
  return (events) => {
    const turns: GivenTurn[] = [];
    let silent: ReadonlySet<string> = new Set(); // the next run knows nothing of it
    /** By the look at the slot: the Workflow whose turn was overdue. */
    const suspects = new Map<string, string>();
    /** By slot: the permit whose `closing` came last. The queue does not heed another one of it, unless it has looked at the slot since. */
    const lastClosed = new Map<string, string>();
    const firstTask = String(events.find((event) => event.workflowTaskCompletedEventAttributes)?.eventId);
    const heard = (ticketId: string) => {
      const workflowId = tickets.get(ticketId)?.waiter.workflowId;
      for (const [look, suspect] of suspects) if (suspect === workflowId) suspects.delete(look);
      for (const [slot, { ticket }] of offered) if (ticket.id === ticketId) offered.delete(slot);
      silent = new Set([...silent].filter((it) => it !== workflowId));
    };
    for (const event of events) {
      const sent = event.signalExternalWorkflowExecutionInitiatedEventAttributes;
      const task = String(sent?.workflowTaskCompletedEventId);
      if (sent?.signalName === TURN) {
        const { ticketId, slot } = decode<Turn>(sent.input);
        const ticket = tickets.get(ticketId);
        if (ticket && slot !== undefined) {
          turns.push({ ticket, silent });
          if (offered.get(slot)?.task === task) dropped.add(ticketId);
          else offered.set(slot, { ticket, task });
        }
      }
      if (sent?.signalName === WATCH) {
        const slot = sent.workflowExecution?.workflowId?.split(':').at(-1) ?? '';
        lastClosed.delete(slot);
        const late = offered.get(slot)?.ticket;
        if (late) suspects.set(String(event.eventId), late.waiter.workflowId);
        if (late && task !== firstTask) {
          // A new run also looks at the slots that the last one has offered, late or not.
          offered.delete(slot);
          dropped.add(late.id);
        }
      }
      const noPermit = event.signalExternalWorkflowExecutionFailedEventAttributes;
      const suspect = suspects.get(String(noPermit?.initiatedEventId));
      if (suspect) silent = new Set([...silent, suspect]);
      const got = event.workflowExecutionSignaledEventAttributes;
      if (got?.signalName === CLOSING) {
        const { slot, runId } = decode<ClosingNotice>(got.input);
        if (lastClosed.get(slot) !== runId) offered.delete(slot);
        lastClosed.set(slot, runId);
      }
      if (got?.signalName === MISSED) {
        const { id } = decode<MissedNotice>(got.input).ticket;
        dropped.delete(id);
        heard(id);
      }
      if (got?.signalName === DECLINED) {
        const { ticketId } = decode<DeclinedNotice>(got.input);
        if (!dropped.has(ticketId)) heard(ticketId); // a ticket that has left the line does not tell the queue whose it was
      }
      if (got?.signalName === ENQUEUE) {
        const { id } = decode<Ticket>(got.input);
        if (dropped.delete(id)) heard(id);
      }
    }
    return turns;
  };
}

type Payloads = NonNullable<HistoryEvent['workflowExecutionSignaledEventAttributes']>['input'];

function decode<T>(input: Payloads): T {
  return JSON.parse(Buffer.from(input?.payloads?.[0]?.data ?? []).toString()) as T;
}

function seconds(sinceMs: number): string {
  return `${((Date.now() - sinceMs) / 1_000).toFixed(1)} s`;
}
