import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { QueueView, Ticket } from '../../shared/protocol';
import { wantsSlot } from '../../shared/slots';
import { ANSWERS_WITHIN_MS, LATE_MS, type PreemptibleHolder, pickHolders } from './preemption';
import { QueueState } from './queue-state';

const wants = ({ slots }: Ticket, slot: string) => wantsSlot(slots, slot);

function waiter(priorityKey: number, more: Partial<Ticket> = {}): Ticket {
  const waiter = { workflowId: 'w', runId: 'r' };
  return { id: `p${priorityKey}`, waiter, slots: 9, sinceMs: 0, priorityKey, preempt: true, ...more };
}

/** Holders in the slots "0", "1" and so on, each of these priorities; the later ones began later. */
function holders(...priorities: number[]): PreemptibleHolder[] {
  return priorities.map((priorityKey, n) => {
    return { slot: `${n}`, runId: `run${n}`, priorityKey, graceMs: 1, givesWay: false };
  });
}

function asked(
  waiters: Ticket[],
  among: PreemptibleHolder[],
  hasAllAnswers = () => true,
): [slot: string, by: number][] {
  return pickHolders(waiters, among, wants, hasAllAnswers).map(({ holder, priorityKey }) => [holder.slot, priorityKey]);
}

test('the holder of the lowest priority gives way, and of equals the youngest', () => {
  assert.deepEqual(asked([waiter(1)], holders(2, 5, 3)), [['1', 1]]);
  assert.deepEqual(asked([waiter(1)], holders(4, 4, 4, 2)), [['2', 1]]);
});

test('only to a strictly higher priority', () => {
  assert.deepEqual(asked([waiter(3)], holders(3, 2, 1)), []);
  assert.deepEqual(asked([waiter(3)], holders(3, 4)), [['1', 3]]);
  const { priorityKey: _, ...unranked } = waiter(0);
  assert.deepEqual(asked([unranked], holders(3, 4)), [['1', 3]], '3 is the default');
});

test('each waiter has one holder, the most urgent waiter first; one that gives way already counts', () => {
  assert.deepEqual(asked([waiter(2), waiter(1)], holders(4, 3, 5)), [
    ['2', 1],
    ['0', 2],
  ]);
  const [first, ...rest] = holders(4, 3, 5);
  const among = [{ ...(first as PreemptibleHolder), givesWay: true }, ...rest];
  assert.deepEqual(asked([waiter(1)], among), []);
  assert.deepEqual(asked([waiter(1), waiter(2)], among), [['2', 2]]);
});

test('only of slots that the waiter would take', () => {
  assert.deepEqual(asked([waiter(1, { slots: 2 })], holders(3, 4, 5)), [['1', 1]]);
  assert.deepEqual(asked([waiter(1, { slots: ['a'] })], holders(3)), []);
});

test('nobody is picked before all have answered', () => {
  assert.deepEqual(
    asked([waiter(1)], holders(3, 4), () => false),
    [],
  );
});

const TERMS = { graceMs: 10_000, priorityKey: 4 };

function ticket(id: string, more: Partial<Ticket> = {}): Ticket {
  return { id, waiter: { workflowId: 'w', runId: 'r' }, slots: 1, sinceMs: 0, priorityKey: 1, preempt: true, ...more };
}

/** A queue in which this waiter asks, and the slots that it wants are held. */
function asking(slots = 1, more: Partial<Ticket> = {}): QueueState {
  const state = new QueueState();
  state.enqueue(ticket('t', { slots, ...more }));
  for (const command of state.next(0)) {
    assert.deepEqual(
      [command.do, 'asks' in command ? command.asks : undefined],
      ['probe', more.preempt === false ? undefined : true],
    );
    if (command.do === 'probe') state.probed(command.slot, true, 0);
  }
  return state;
}

test('plain waiters ask nobody anything', () => {
  const state = asking(1, { preempt: false });
  assert.deepEqual(state.next(0), []);
  assert.deepEqual(
    state.next(10_000).map((command) => JSON.stringify(command)),
    ['{"do":"probe","slot":"0"}'],
  );
});

test('the queue picks when all have answered, or the time for it is over', () => {
  const state = asking(3);
  state.preemptible({ slot: '0', runId: 'a', ...TERMS }, 100);
  state.preemptible({ slot: '1', runId: 'b', ...TERMS, priorityKey: 3 }, 100);
  assert.deepEqual(state.next(100), []);
  assert.equal(state.dueMs(), ANSWERS_WITHIN_MS);
  const commands = state.next(ANSWERS_WITHIN_MS);
  assert.deepEqual(
    commands.filter((command) => command.do === 'preempt'),
    [{ do: 'preempt', slot: '0', runId: 'a', priorityKey: 1 }],
  );

  const all = asking(2);
  all.preemptible({ slot: '0', runId: 'a', ...TERMS }, 100);
  all.preemptible({ slot: '1', runId: 'b', ...TERMS, priorityKey: 5 }, 100);
  assert.deepEqual(all.next(100), [{ do: 'preempt', slot: '1', runId: 'b', priorityKey: 1 }]);
  assert.deepEqual(all.next(100), [], 'once');
});

test('what is known of a holder outlasts probes and the next run of the queue', () => {
  let state = asking();
  state.preemptible({ slot: '0', runId: 'a', ...TERMS }, 0);
  assert.equal(state.next(0).length, 1);
  state = new QueueState(JSON.parse(JSON.stringify(state.view())) as QueueView);
  assert.deepEqual(state.next(10_000), [{ do: 'probe', slot: '0', asks: true }]);
  state.probed('0', true, 10_000);
  state.preemptible({ slot: '0', runId: 'a', ...TERMS }, 10_000); // it was asked again
  assert.deepEqual(state.next(10_000), [], 'it gives way already');
});

test('a holder that has ended before it heard of it makes the queue ask who is there now', () => {
  const state = asking();
  state.preemptible({ slot: '0', runId: 'a', ...TERMS }, 0);
  state.next(0);
  state.notThere('0', 'a');
  assert.deepEqual(state.next(10), [{ do: 'probe', slot: '0', asks: true }]);
  state.probed('0', true, 10);
  state.preemptible({ slot: '0', runId: 'b', ...TERMS }, 10);
  assert.deepEqual(state.next(10), [{ do: 'preempt', slot: '0', runId: 'b', priorityKey: 1 }]);
});

test('a holder that has not given way long after its grace is asked anew', () => {
  const state = asking();
  state.preemptible({ slot: '0', runId: 'a', ...TERMS }, 0);
  state.next(0);
  const lateMs = TERMS.graceMs + LATE_MS;
  let nowMs = 0;
  for (; nowMs < lateMs; nowMs = state.dueMs()) {
    for (const command of state.next(nowMs)) {
      assert.ok(command.do === 'probe');
      state.probed(command.slot, true, nowMs);
    }
  }
  assert.equal(nowMs, lateMs);
  const [probe] = state.next(nowMs);
  assert.equal(probe?.do, 'probe');
  state.probed('0', true, nowMs);
  state.preemptible({ slot: '0', runId: 'b', ...TERMS }, nowMs);
  assert.equal(state.next(nowMs)[0]?.do, 'preempt');
});

test('a holder whose turn was used just now is asked too, a little later', () => {
  const state = new QueueState();
  state.enqueue(ticket('first', { preempt: undefined }));
  state.next(0);
  state.probed('0', false, 0);
  assert.equal(state.next(0)[0]?.do, 'offer');
  state.enqueue(ticket('t'));
  assert.deepEqual(state.next(0), []);
  const askMs = state.dueMs();
  assert.ok(askMs > 0 && askMs <= 1_000);
  assert.deepEqual(state.next(askMs), [{ do: 'ask', slot: '0' }]);
  assert.deepEqual(state.next(askMs), []);
  state.preemptible({ slot: '0', runId: 'a', ...TERMS }, askMs);
  assert.equal(state.ticket('first'), undefined, 'it was served');
  assert.deepEqual(state.next(askMs), [{ do: 'preempt', slot: '0', runId: 'a', priorityKey: 1 }]);
});

test('an answer that comes after its permit has closed is old', () => {
  const state = asking();
  state.closing({ slot: '0', runId: '01a20256-b993-7dd0-bd87-d0d86fabc517' });
  assert.equal(state.next(0)[0]?.do, 'offer');
  state.enqueue(ticket('next'));
  state.next(600);
  state.preemptible({ slot: '0', runId: '01a20256-b993-7dd0-bd87-d0d86fabc517', ...TERMS }, 600);
  assert.notEqual(state.ticket('t'), undefined, 'its turn is still its own');
});
