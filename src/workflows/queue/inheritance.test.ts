import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Ticket } from '../../shared/protocol';
import { Inheritance } from './inheritance';
import { atMost } from './queue-command';
import { QueueState } from './queue-state';

/** A queue in which no caller keeps permits of other resources. */
function line(bestPriority: number) {
  return { bestPriority, inheriting: () => [] };
}

test('a queue answers each queue that asks, even after a hundred others', () => {
  const inheritance = new Inheritance('r');
  const told = (bestPriority: number) =>
    [...inheritance.moves(line(bestPriority), 0)].map((command) => command.do === 'pass-on' && command.to);
  for (let n = 0; n < 150; n++) {
    inheritance.asks(`other-${n}`);
    assert.deepEqual(told(3), [`other-${n}`]);
  }
  for (const known of ['other-0', 'other-149']) {
    inheritance.asks(known);
    assert.deepEqual(told(3), [known], 'it asks again');
  }
  assert.equal(told(2).length, 100, 'the queue reports a higher priority to a hundred others');
});

test('a queue that has room for one message at a time asks about each permit that a caller keeps', () => {
  const inherits = ['a', 'b', 'c'];
  const waiter = { workflowId: 'w', runId: 'r' };
  const ticket: Ticket = { id: 't', waiter, slots: 1, sinceMs: 0, inherits, priorityKey: 5 };
  for (const [of, bestPriority] of [
    [ticket, 1],
    [{ ...ticket, givesWay: true }, 5],
  ] as const) {
    const inheritance = new Inheritance('r');
    const waiting = { bestPriority, inheriting: () => [of] };
    const asked = () => atMost(1, inheritance.moves(waiting, 0)).map((it) => it.do === 'ask-priority' && it.of);
    assert.deepEqual([asked(), asked(), asked(), asked()], [['a'], ['b'], ['c'], []]);
  }
});

test('a queue that is to continue as new owes an answer to the queue that has asked it', () => {
  const inheritance = new Inheritance('r');
  assert.equal(inheritance.owesWord(line(2)), false);
  inheritance.asks('other');
  assert.equal(inheritance.owesWord(line(2)), true);
  assert.deepEqual([...inheritance.moves(line(2), 0)], [{ do: 'pass-on', to: 'other', priorityKey: 2 }]);
  assert.equal(inheritance.owesWord(line(2)), false);
});

test('the next run of a queue asks for those tickets for which the last run has not asked', () => {
  const waiter = { workflowId: 'w', runId: 'r' };
  const inherits = ['r~key:x', 'r~key:y'];
  const [first, second] = ['first', 'second'].map((id): Ticket => {
    return { id, waiter, slots: 1, sinceMs: 0, inherits, givesWay: true };
  }) as [Ticket, Ticket];
  const state = new QueueState();
  const inheritance = new Inheritance('r');
  const asked = (by: Inheritance, of: QueueState, room: number) =>
    atMost(room, by.moves(of, 0)).map((it) => it.do === 'ask-priority' && it.of);
  state.enqueue(first);
  assert.deepEqual(asked(inheritance, state, 2), inherits);
  state.enqueue(second);
  assert.deepEqual(asked(inheritance, state, 1), ['r~key:x']);
  const unasked = inheritance.unasked(state);
  assert.deepEqual(unasked, ['second']);
  const next = new QueueState(JSON.parse(JSON.stringify(state.view())));
  assert.deepEqual(asked(new Inheritance('r', next.inheriting(), unasked), next, 9), inherits);
});
