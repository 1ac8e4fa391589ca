import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { WorkflowExecutionDescription } from '@temporalio/client';
import type { Ticket } from '../../shared/protocol';
import { LongWaiters } from './long-waiters';

const LONG_MS = 60_000;

/** Tickets that have waited for a long time, the first of them for longest. */
function line(length: number): Ticket[] {
  const nowMs = Date.now();
  return Array.from({ length }, (_, place) => ({
    id: `t${place}`,
    waiter: { workflowId: `w${place}`, runId: 'r' },
    slots: 1,
    sinceMs: nowMs - 10 * LONG_MS + place,
  }));
}

const running = { status: { name: 'RUNNING' } } as WorkflowExecutionDescription;
const idsOf = (tickets: readonly Ticket[]) => tickets.map(({ id }) => id);

test('a look asks about a hundred of those that have waited for long, and the next one about others', async () => {
  const tickets = line(150);
  const waiters = new LongWaiters(LONG_MS);
  const first = waiters.due(tickets);
  assert.deepEqual(idsOf(first), idsOf(tickets.slice(0, 100)));
  for (const ticket of first) await waiters.ask(ticket, async () => running);
  assert.deepEqual(idsOf(waiters.due(tickets)), idsOf(tickets.slice(100)));
  const newcomer = {
    ...tickets[0],
    id: 'new',
    waiter: { workflowId: 'new', runId: 'r' },
    sinceMs: Date.now(),
  } as Ticket;
  assert.deepEqual(new LongWaiters(LONG_MS).due([newcomer]), [], 'it has only just come');
});

test('about a waiter that was asked about before, a look asks again when it is due, and after those that nobody has asked about', async () => {
  const [a, b, c] = line(3) as [Ticket, Ticket, Ticket];
  const waiters = new LongWaiters(0);
  await waiters.ask(a, async () => running);
  assert.deepEqual(idsOf(waiters.due([a, b, c])), ['t1', 't2', 't0']);
});

test('what a look has found of a waiter is forgotten when the waiter has left the line', async () => {
  const [gone, there] = line(2) as [Ticket, Ticket];
  const waiters = new LongWaiters(LONG_MS);
  await waiters.ask(gone, async () => undefined);
  await waiters.ask(there, async () => running);
  assert.deepEqual([waiters.of(gone)?.isGone, waiters.of(there)?.isGone], [true, false]);
  waiters.due([there]);
  assert.deepEqual([waiters.of(gone), waiters.of(there)?.isGone], [undefined, false]);
});
