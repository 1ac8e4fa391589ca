import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Ticket } from '../../shared/protocol';
import { CONTENDED_TIMEOUT_MS } from './offer-timeouts';
import { QueueState } from './queue-state';

function ticketOf(workflowId: string, id: string, fields: Partial<Ticket> = {}): Ticket {
  return { id, waiter: { workflowId, runId: 'r' }, slots: 1, sinceMs: 0, ...fields };
}

/** The tickets that have a turn now. */
function turns(state: QueueState, nowMs: number): string[] {
  return state
    .next(nowMs)
    .flatMap((command) => (command.do === 'offer' ? [command.ticket, ...(command.also ?? [])] : []))
    .map(({ id }) => id);
}

/**
 * A queue of one slot in which the first of these tickets had its turn and sent no word, so that its waiter is silent. The next ones have
 * their turn now, 1 s later.
 */
function afterSilence(...tickets: Ticket[]): QueueState {
  const state = new QueueState();
  for (const ticket of tickets) state.enqueue(ticket);
  state.next(0);
  state.probed('0', false, 0);
  assert.deepEqual(turns(state, 0), [tickets[0]?.id]);
  assert.deepEqual(state.next(CONTENDED_TIMEOUT_MS), [{ do: 'probe', slot: '0', overdue: true }]);
  state.probed('0', false, CONTENDED_TIMEOUT_MS);
  return state;
}

const FAN = [ticketOf('fan', 'f1'), ticketOf('fan', 'f2'), ticketOf('fan', 'f3')] as const;
const OTHERS = ['a', 'b', 'c', 'd'].map((id) => ticketOf(id, id, { sinceMs: 1 }));
const [A, B] = OTHERS as [Ticket, Ticket];

test('a Workflow that uses its turn late, and so beats the next waiters, has its other turns in their order', () => {
  const state = afterSilence(...FAN, ...OTHERS);
  assert.deepEqual(turns(state, CONTENDED_TIMEOUT_MS), ['a', 'b']);
  for (const beaten of [A, B]) state.missed(beaten, '0'); // f1 has the slot, and has no reason to say so
  assert.deepEqual(state.next(1_100), [{ do: 'probe', slot: '0' }]);
  state.probed('0', true, 1_100);
  state.closing({ slot: '0', runId: 'of-f1' });
  assert.deepEqual(turns(state, 1_200), ['f2']);
});

test('of two that let their turns pass, the first is taken for the one that beat the next waiters', () => {
  const others = Array.from('abcdefgh', (id) => ticketOf(id, id, { sinceMs: 1 }));
  const state = afterSilence(...FAN, ...others);
  assert.deepEqual(turns(state, CONTENDED_TIMEOUT_MS), ['a', 'b']);
  assert.deepEqual(state.next(2 * CONTENDED_TIMEOUT_MS), [{ do: 'probe', slot: '0', overdue: true }]);
  state.probed('0', false, 2 * CONTENDED_TIMEOUT_MS);
  assert.deepEqual(turns(state, 2 * CONTENDED_TIMEOUT_MS), ['c', 'd', 'e', 'f']);
  state.missed(others[2] as Ticket, '0');
  assert.deepEqual(state.next(2_100), [{ do: 'probe', slot: '0' }]);
  state.probed('0', true, 2_100);
  state.closing({ slot: '0', runId: 'of-f1' });
  assert.deepEqual(turns(state, 2_200), ['f2']);
});

test('a Workflow that has released its permit is not silent any more', () => {
  const state = afterSilence(...FAN, ...OTHERS);
  assert.deepEqual(turns(state, CONTENDED_TIMEOUT_MS), ['a', 'b']);
  state.closing({ slot: '0', runId: 'of-f1', releasedBy: 'fan' });
  assert.deepEqual(turns(state, 1_100), ['f2']);
});

test('a Workflow that sends a ticket again is not silent any more', () => {
  const state = afterSilence(...FAN, ...OTHERS);
  assert.deepEqual(turns(state, CONTENDED_TIMEOUT_MS), ['a', 'b']);
  state.enqueue({ ...FAN[2], answer: true });
  state.closing({ slot: '0', runId: 'of-a', releasedBy: 'a' });
  assert.deepEqual(turns(state, 1_100), ['f2']);
});

test('a dead client stays silent, whatever the Workflows in which its tickets wait say, and however a permit of its ends', () => {
  const identity = '4711@host';
  const dead = Array.from({ length: 50 }, (_, n) => ticketOf(`permit-waiter:x:${n}`, `dead-${n}`, { identity }));
  const state = afterSilence(...dead, ...OTHERS);
  assert.deepEqual(turns(state, CONTENDED_TIMEOUT_MS), ['a', 'b']);
  for (const ticket of dead.slice(1, 40)) state.enqueue({ ...ticket, answer: true });
  for (const { id } of dead.slice(1, 20)) state.declined(id, 'r'); // their five minutes are over
  state.closing({ slot: '0', runId: 'its-lease-has-ended' });
  assert.deepEqual(turns(state, 1_100), ['c']);
  state.closing({ slot: '0', runId: 'of-c', releasedBy: 'c' });
  assert.deepEqual(turns(state, 1_200), ['d']);
});

test('a client that passes its turn on, or comes with its next waiter, is not silent any more', () => {
  const identity = '4711@host';
  const tickets = ['t1', 't2', 't3'].map((id) => ticketOf(`permit-waiter:x:${id}`, id, { identity }));
  const [, second] = tickets as [Ticket, Ticket];
  const words: ((state: QueueState) => void)[] = [
    (state) => state.enqueue({ ...second, waiter: { workflowId: 'permit-waiter:x:next', runId: 'next' } }),
    (state) => state.closing({ slot: '0', runId: 'of-t1', releasedBy: identity }),
  ];
  for (const word of words) {
    const state = afterSilence(...tickets, ...OTHERS);
    assert.deepEqual(turns(state, CONTENDED_TIMEOUT_MS), ['a', 'b']);
    word(state);
    state.closing({ slot: '0', runId: 'of-a', releasedBy: 'a' });
    assert.deepEqual(turns(state, 1_100), ['t2']);
  }
});

test('a Workflow that is gone has no turn more, however many tickets it has', () => {
  const tickets = Array.from({ length: 50 }, (_, n) => ticketOf('gone', `t${n}`));
  const state = new QueueState();
  for (const ticket of [...tickets, ...OTHERS]) state.enqueue(ticket);
  state.next(0);
  state.probed('0', false, 0);
  assert.deepEqual(turns(state, 0), ['t0']);
  state.undeliverable('0', 't0');
  assert.deepEqual(turns(state, 1), ['a']);
  assert.equal(state.waitingCount, 3);
});
