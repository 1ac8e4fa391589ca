import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import type { OverrideInput, Ticket } from '../../shared/protocol';
import { MAX_PROBES_A_DAY } from '../../shared/run-limits';
import { readClosing } from '../../shared/wire-input';
import { DRAIN_RENEWAL_MS } from './drains';
import { handOn } from './handed-on';
import { MAX_BYTES, MAX_WAITERS } from './line';
import { CONTENDED_TIMEOUT_MS, OFFER_TIMEOUT_MS } from './offer-timeouts';
import type { QueueCommand } from './queue-command';
import { QueueState, REMEMBER_HELD_MS } from './queue-state';

function ticket(id: string, fields: Partial<Ticket> = {}): Ticket {
  return { id, waiter: { workflowId: id, runId: 'r' }, slots: 1, sinceMs: 0, ...fields };
}

/** What a run hands to the next, where each ticket is owed an answer, and is in doubt. */
function bytesOf(state: QueueState): number {
  const view = state.view();
  const tickets = new Map(view.tickets.map((it) => [it.id, it]));
  return JSON.stringify(handOn({ view: () => view, inDoubt: [...tickets.keys()], outranked: [] }, tickets)).length;
}

function slotsOf(commands: readonly QueueCommand[]): string[] {
  return commands.flatMap((command) => ('slot' in command ? command.slot : []));
}

function turnsIn(commands: readonly QueueCommand[]): [slot: string, ticketId: string][] {
  return commands.flatMap((command) => (command.do === 'offer' ? [[command.slot, command.ticket.id]] : []));
}

/** A queue of capacity 1 in which `first` has its turn and the others wait. */
function offeredTo(first: Ticket, ...others: Ticket[]): QueueState {
  const state = new QueueState();
  for (const one of [first, ...others]) state.enqueue(one);
  assert.deepEqual(state.next(0), [{ do: 'probe', slot: '0' }]);
  state.probed('0', false, 0);
  assert.deepEqual(state.next(0), [{ do: 'offer', slot: '0', ticket: first }]);
  assert.deepEqual(state.next(0), []);
  return state;
}

test('a waiter that was beaten keeps its place', () => {
  const [a, b] = [ticket('a'), ticket('b')];
  const state = offeredTo(a, b);
  state.missed(a, '0');
  assert.deepEqual(state.next(0), [{ do: 'probe', slot: '0' }]);
  state.probed('0', true, 0);
  state.closing({ slot: '0', runId: 'thief' });
  assert.deepEqual(state.next(0), [{ do: 'offer', slot: '0', ticket: a }]);
});

test('a turn that a raised ticket missed is refunded at the priority at which it was charged', () => {
  for (const raised of ['before its turn', 'before its turn, by the last run', 'during its turn']) {
    const isRaisedFirst = raised !== 'during its turn';
    const low = ticket('low', { inherits: ['a'], priorityKey: 5, fairnessKey: 'k' });
    let state = new QueueState();
    state.enqueue(low);
    if (isRaisedFirst) state.inherit('a', 1);
    state.next(0);
    state.probed('0', false, 0);
    assert.equal(state.next(0)[0]?.do, 'offer');
    if (!isRaisedFirst) state.inherit('a', 1);
    // Another waiter of that key has had its turn at the other priority.
    const other = ticket('other', { slots: ['x'], priorityKey: isRaisedFirst ? 5 : 1, fairnessKey: 'k' });
    state.enqueue(other);
    state.next(0);
    state.probed('x', false, 0);
    assert.deepEqual(turnsIn(state.next(0)), [['x', 'other']]);
    if (raised.endsWith('the last run')) state = new QueueState(state.view());
    state.missed(low, '0');
    const shares = state.view().shares.map(([priorityKey, , keys]) => [priorityKey, ...keys.flat()]);
    const expected = [
      [1, 'k', isRaisedFirst ? 0 : 1],
      [5, 'k', isRaisedFirst ? 1 : 0],
    ];
    assert.deepEqual(shares.sort(), expected, `raised ${raised}`);
  }
});

test('a slot that a waiter does not know is told from one that an operator has added', () => {
  const state = new QueueState();
  state.enqueue(ticket('a', { slots: 4 }));
  assert.equal(state.othersOf('3'), undefined);
  state.enqueue(ticket('b', { slots: 3 }));
  assert.deepEqual([state.othersOf('2'), state.othersOf('3')], [undefined, 3]);
  state.setOverride({ slots: 3, capacity: 4 }, 0);
  assert.equal(state.othersOf('3'), undefined);
  const named = new QueueState();
  for (const slots of [['x'], ['x', 'y']]) named.enqueue(ticket(String(slots), { slots }));
  assert.deepEqual([named.othersOf('x'), named.othersOf('y')], [undefined, ['x']]);
});

test('a slot is offered as soon as its permit closes, whatever dates the notice has', () => {
  const [a, b] = [ticket('a'), ticket('b')];
  const state = offeredTo(a, b);
  const notice = { slot: '0', runId: randomUUID(), startedAtMs: 8e15, kept: true };
  state.closing(readClosing(notice) ?? assert.fail());
  assert.deepEqual(state.next(0), [{ do: 'offer', slot: '0', ticket: b }]);
});

test('what is reserved for an accumulator goes with its turn', () => {
  const state = new QueueState();
  const accumulator = ticket('a', { slots: 2, permits: 2, kept: 0 });
  for (const one of [accumulator, ticket('b', { slots: 2 }), ticket('c', { slots: 2 })]) state.enqueue(one);
  assert.deepEqual(slotsOf(state.next(0)), ['0', '1']);
  for (const slot of ['0', '1']) state.probed(slot, false, 0);
  assert.deepEqual(state.next(0), [{ do: 'offer', slot: '0', ticket: accumulator }]);
  state.closing({ slot: '0', runId: 'late' }); // as if the turn had been used
  assert.deepEqual(turnsIn(state.next(0)), [
    ['0', 'b'],
    ['1', 'c'],
  ]);
  state.missed(accumulator, '0');
  state.closing({ slot: '1', runId: 'of c' });
  assert.deepEqual(turnsIn(state.next(0)), [['1', 'a']]);
});

test('what is reserved for an accumulator goes to others once its turn is late, and is not reserved again at once', () => {
  const state = new QueueState();
  for (const one of [ticket('a', { slots: 3, permits: 2, kept: 0 }), ticket('b')]) state.enqueue(one);
  assert.deepEqual(slotsOf(state.next(0)).sort(), ['0', '1', '2']);
  for (const slot of ['0', '1', '2']) state.probed(slot, slot !== '2', 0);
  assert.deepEqual(turnsIn(state.next(0)), [['2', 'a']]);
  state.closing({ slot: '0', runId: 'r' });
  assert.deepEqual(state.next(500), []); // it is reserved
  const lateMs = state.dueMs();
  assert.ok(lateMs < OFFER_TIMEOUT_MS, `${lateMs}`);
  assert.deepEqual(slotsOf(state.next(lateMs)), ['0']);
  state.probed('0', false, lateMs);
  assert.deepEqual(turnsIn(state.next(lateMs)), [['0', 'b']]);
});

test('a declined turn, and one for a waiter that is gone, go to the next at once', () => {
  const [a, b, c] = [ticket('a'), ticket('b'), ticket('c')];
  const state = offeredTo(a, b, c);
  state.declined('a');
  assert.deepEqual(state.next(0), [{ do: 'offer', slot: '0', ticket: b }]);
  state.undeliverable('0', 'b');
  assert.deepEqual(state.next(0), [{ do: 'offer', slot: '0', ticket: c }]);
});

test('an overdue turn goes to the next after a probe', () => {
  const [a, b] = [ticket('a'), ticket('b')];
  const state = offeredTo(a, b);
  assert.equal(state.dueMs(), CONTENDED_TIMEOUT_MS);
  assert.deepEqual(state.next(CONTENDED_TIMEOUT_MS - 1), []);
  assert.deepEqual(state.next(CONTENDED_TIMEOUT_MS), [{ do: 'probe', slot: '0', overdue: true }]);
  state.probed('0', false, CONTENDED_TIMEOUT_MS);
  assert.deepEqual(state.next(CONTENDED_TIMEOUT_MS), [{ do: 'offer', slot: '0', ticket: b, also: [] }]);
});

/** Lets time go by until `live` has its turn. Nobody uses one. @returns when */
function servedAt(state: QueueState, live: Ticket): number {
  for (let nowMs = 0; nowMs < 120_000; nowMs = state.dueMs()) {
    for (const command of state.next(nowMs)) {
      if (command.do === 'probe') state.probed(command.slot, false, nowMs);
      if (command.do === 'offer' && [command.ticket, ...(command.also ?? [])].includes(live)) return nowMs;
    }
    for (const command of state.next(nowMs)) {
      if (command.do === 'offer' && [command.ticket, ...(command.also ?? [])].includes(live)) return nowMs;
    }
  }
  return Number.POSITIVE_INFINITY;
}

test('twelve silent waiters cost the one behind them a second if they are of one client, and four if each is on its own', () => {
  const live = ticket('live', { sinceMs: 1 });
  for (const [identity, mostMs] of [
    ['4711@host', 1_000],
    [undefined, 4_000],
  ] as const) {
    const dead = Array.from({ length: 12 }, (_, n) => ticket(`dead-${n}`, { identity }));
    const state = new QueueState();
    for (const one of [...dead, live]) state.enqueue(one);
    const tookMs = servedAt(state, live);
    assert.ok(tookMs <= mostMs, `${identity}: served after ${tookMs} ms`);
  }
});

test('a waiter that was taken for dead and lives has its place again, and makes the queue patient', () => {
  const [slow, b, c] = [ticket('slow'), ticket('b', { sinceMs: 1 }), ticket('c', { sinceMs: 2 })];
  const state = offeredTo(slow, b, c);
  state.next(CONTENDED_TIMEOUT_MS);
  state.probed('0', false, CONTENDED_TIMEOUT_MS);
  assert.deepEqual(state.next(CONTENDED_TIMEOUT_MS), [{ do: 'offer', slot: '0', ticket: b, also: [c] }]);
  for (const beaten of [slow, c]) state.missed(beaten, '0');
  state.closing({ slot: '0', runId: 'of-b' });
  assert.deepEqual(state.next(2_000), [{ do: 'offer', slot: '0', ticket: slow }]);
  assert.ok(state.dueMs() > 2_000 + 1.5 * CONTENDED_TIMEOUT_MS);
});

test('a closing that overtakes the answer to a probe is not forgotten', () => {
  const state = new QueueState();
  state.enqueue(ticket('a'));
  state.next(0);
  state.closing({ slot: '0', runId: 'r1' });
  state.probed('0', true, 0);
  assert.equal(state.next(0)[0]?.do, 'offer');
});

test('a permit that says twice that it closes is heard once', () => {
  const [a, b] = [ticket('a'), ticket('b')];
  const state = new QueueState();
  for (const one of [a, b]) state.enqueue(one);
  state.next(0);
  state.probed('0', true, 0);
  state.closing({ slot: '0', runId: 'r1' });
  assert.deepEqual(state.next(0), [{ do: 'offer', slot: '0', ticket: a }]);
  state.closing({ slot: '0', runId: 'r1' });
  assert.deepEqual(state.next(0), []);
});

test('a permit that is asked while it ends says again that it closes, and is heard again', () => {
  for (const isAnswered of [true, false]) {
    const a = ticket('a');
    const state = new QueueState();
    state.enqueue(a);
    state.next(0);
    state.probed('0', true, 0);
    state.closing({ slot: '0', runId: 'r1' });
    state.next(0);
    state.missed(a, '0'); // r1 has not closed yet
    assert.deepEqual(state.next(0), [{ do: 'probe', slot: '0' }]);
    if (isAnswered) state.probed('0', true, 0);
    state.closing({ slot: '0', runId: 'r1' });
    if (!isAnswered) state.probed('0', true, 0);
    assert.deepEqual(state.next(0), [{ do: 'offer', slot: '0', ticket: a }], `answered: ${isAnswered}`);
  }
});

test('held slots are probed ever more rarely, every four minutes in the end, and only while somebody waits', () => {
  const state = new QueueState();
  state.enqueue(ticket('a'));
  state.next(0);
  state.probed('0', true, 0);
  const dayMs = 24 * 3_600_000;
  let probes = 0;
  for (let nowMs = state.dueMs(); nowMs < dayMs; nowMs = state.dueMs(), probes++) {
    assert.deepEqual(state.next(nowMs), [{ do: 'probe', slot: '0' }]);
    state.probed('0', true, nowMs);
  }
  assert.ok(probes > 360 && probes < 400, `${probes} probes a day`);
  state.declined('a');
  assert.equal(state.dueMs(), Number.POSITIVE_INFINITY);
  assert.deepEqual(state.next(dayMs * 2), []);
});

test('however lines come and go, a holder is asked no more often than where one stands all day', () => {
  const dayMs = 24 * 3_600_000;
  for (const lineMs of [1, 5_000, 60_000, 200_000, 600_000, 3_600_000]) {
    for (const gapMs of [2_000, REMEMBER_HELD_MS + 3_000]) {
      let state = new QueueState();
      let probes = 0;
      let emptySinceMs = 0;
      for (let nowMs = 0; nowMs < dayMs; ) {
        if (nowMs - emptySinceMs > REMEMBER_HELD_MS) state = new QueueState(); // an empty queue has ended, and forgotten
        state.enqueue(ticket('a'));
        for (const leavesMs = nowMs + lineMs; nowMs <= leavesMs; nowMs = Math.max(nowMs + 1, state.dueMs())) {
          probes += state.next(nowMs).length;
          state.probed('0', true, nowMs);
        }
        state.declined('a');
        emptySinceMs = nowMs;
        assert.ok(state.idle && state.awaitsClosing);
        nowMs += gapMs;
      }
      assert.ok(probes < MAX_PROBES_A_DAY, `lines of ${lineMs} ms each ${gapMs} ms: ${probes} probes a day`);
    }
  }
});

test('at most so many messages at a time, and the rest when there is room', () => {
  const state = new QueueState();
  state.enqueue(ticket('a', { slots: 100 }));
  const first = state.next(0, 64);
  assert.equal(first.length, 64);
  assert.equal(state.next(0, 64).length, 36);
  assert.deepEqual(state.next(0, 64), []);
  for (const slot of slotsOf(first)) state.probed(slot, false, 0);
  assert.equal(state.next(0, 64).length, 1, 'one waiter, one turn');
});

test('a thousand held slots do not keep the one that is free from being found', () => {
  const state = new QueueState();
  state.enqueue(ticket('a', { slots: 1_000 }));
  let nowMs = 0;
  for (let asked = 0; asked < 1_000; nowMs += 100) {
    const commands = state.next(nowMs, 64);
    assert.ok(commands.length > 0, `only ${asked} slots were asked about`);
    for (const slot of slotsOf(commands)) state.probed(slot, slot !== '999', nowMs);
    if (slotsOf(commands).includes('999')) break;
    asked += commands.length;
  }
  assert.ok(nowMs < 2_000, `it took ${nowMs} ms`);
  assert.deepEqual(state.next(nowMs, 64)[0]?.do, 'offer');
});

test('a ticket that is sent again longer counts with its length', () => {
  const state = new QueueState();
  const names = (length: number) => Array.from({ length: 1_000 }, (_, n) => `${n}`.padEnd(length, 'x'));
  assert.equal(state.enqueue(ticket('a', { slots: names(200) })), true);
  for (const id of ['b', 'c', 'd', 'e', 'f']) {
    state.enqueue(ticket(id, { slots: ['1'.padEnd(200, 'x')] }));
    state.enqueue(ticket(id, { slots: names(200) }));
  }
  assert.ok(bytesOf(state) < MAX_BYTES);
});

test('a pause, tickets and overrides with invented names of any length fit into what a run can hand to the next', () => {
  const state = new QueueState();
  const names = (prefix: string) => Array.from({ length: 1_000 }, (_, n) => `${prefix}${n}`.padEnd(230, 'x'));
  for (let n = 0; n < 300; n++) {
    // Each weight is so small that its key is remembered.
    state.enqueue(ticket(`key${n}`, { fairnessKey: `${n}`.padEnd(64, '\u0001'), priorityKey: 1 + (n % 7), slots: 2 }));
  }
  const answer = (nowMs: number) => {
    for (let rounds = 0; rounds < 5; rounds++) {
      for (const command of state.next(nowMs)) {
        if (command.do === 'probe') state.probed(command.slot, command.slot.startsWith('b'), nowMs);
        else if (command.do === 'drain') state.claimed(command.slot, `run-${command.slot}`.slice(0, 36), nowMs);
        else if (command.do === 'release') state.closing(command);
      }
    }
  };
  const bytes = () => bytesOf(state);
  for (let again = 0; again < 2; again++) state.enqueue(ticket(`a${again}`, { slots: names('a') }));
  for (let order = 0; order < 6; order++) {
    const slots = names(`r${order}-`);
    const set = (input: OverrideInput) => state.canSet(input) && state.setOverride(input, order);
    assert.ok(set({ slots, paused: true, reason: 'r'.repeat(1_000) }));
    for (let again = 0; again < 10; again++) set({ slots: names(`s${order}.${again}-`), paused: true });
    assert.ok(set({ slots, paused: true }));
    answer(order);
    assert.ok(bytes() < 2_097_152, `${bytes()} bytes after order ${order}`);
    assert.ok(!state.view().slots.some(([slot]) => slot.startsWith(`r${order - 1}-`)), 'what no order names is let go');
    assert.equal(state.enqueue(ticket('b', { slots: names('b') })), false, 'no room beside the order');
  }
  state.setOverride({ slots: 2, paused: false }, 9);
  answer(9);
  assert.deepEqual(
    state.view().slots.filter(([, { at }]) => at === 'drained'),
    [],
  );
});

test('whatever waits, an operator can take 1,000 numbered slots out of use', () => {
  const state = new QueueState();
  const waiter = { workflowId: 'w'.repeat(900), runId: 'r' };
  let taken = 0;
  while (state.enqueue({ ...ticket(`t${taken}`), slots: 1_000, waiter })) taken++;
  const pause = { slots: 1_000, paused: true, reason: 'r'.repeat(1_000) };
  assert.ok(state.canSet(pause));
  state.setOverride(pause, 1);
  for (let round = 0; round < 40; round++) {
    for (const command of state.next(1)) {
      if (command.do === 'probe') state.probed(command.slot, false, 1);
      if (command.do === 'drain') state.claimed(command.slot, randomUUID(), 1_795_565_916_301);
    }
  }
  assert.ok(state.view().slots.filter(([, { at }]) => at === 'drained').length === 1_000);
  assert.ok(bytesOf(state) < 2_097_152 - 150_000);
});

test('names that nobody wants any more are forgotten, and a queue takes only so many different ones', () => {
  const state = new QueueState();
  const names = (prefix: string) => Array.from({ length: 1_000 }, (_, n) => `${prefix}${n}`);
  for (const prefix of ['a', 'b']) assert.equal(state.enqueue(ticket(prefix, { slots: names(prefix) })), true);
  assert.equal(state.enqueue(ticket('c', { slots: names('c') })), false);
  for (const slot of slotsOf(state.next(0))) state.probed(slot, false, 0);
  state.declined('a');
  state.declined('b');
  state.next(1);
  assert.deepEqual(state.view().slots, []);
  assert.equal(state.enqueue(ticket('c', { slots: names('c') })), true);
});

test('a full queue takes no more', () => {
  const state = new QueueState();
  for (let n = 0; n < MAX_WAITERS; n++) assert.equal(state.enqueue(ticket(`t${n}`)), true);
  assert.equal(state.enqueue(ticket('one more')), false);
  assert.equal(state.enqueue(ticket('t0')), true, 'a ticket that is in may come again');
});

test('a queue takes no more bytes than it could hand to its next run, and has room again when somebody leaves', () => {
  const slots = Array.from({ length: 200 }, (_, n) => `gpu-node-${n}`);
  const state = new QueueState();
  let taken = 0;
  const waiter = { workflowId: 'w'.repeat(900), runId: 'r' };
  while (state.enqueue({ ...ticket(`t${taken}`), slots, waiter })) taken++;
  assert.ok(taken > 100 && taken < MAX_WAITERS, `${taken} taken`);
  assert.ok(bytesOf(state) < MAX_BYTES);
  state.declined('t0');
  state.declined('t1');
  assert.equal(state.enqueue({ ...ticket('again'), slots }), true);
});

test('the names of a list count once: as many wait for 64 named slots as for 64 that are counted', () => {
  const slots = Array.from({ length: 64 }, (_, n) => `node-17/gpu-${n}`);
  const state = new QueueState();
  for (let n = 0; n < MAX_WAITERS; n++) {
    const waiter = { workflowId: `order-${n}`.padEnd(60, 'x'), runId: randomUUID() };
    const fields = { slots: [...slots], waiter, sinceMs: Date.now() + n, fairnessKey: `tenant-${n % 10}` };
    assert.ok(state.enqueue(ticket(randomUUID(), fields)), `${n} taken`);
  }
  assert.ok(bytesOf(state) < MAX_BYTES);
});

test("the turn of an acquirer's last waiter is taken back when the next one comes with its ticket", () => {
  const state = new QueueState();
  const first = { ...ticket('a'), slots: 1 };
  state.enqueue(first);
  assert.deepEqual(state.next(0), [{ do: 'probe', slot: '0' }]);
  state.probed('0', false, 0);
  assert.deepEqual(state.next(0), [{ do: 'offer', slot: '0', ticket: first }]);
  state.enqueue({ ...first, waiter: { ...first.waiter, runId: 'next' } });
  state.undeliverable('0', 'a'); // the last one's turn finds it gone
  assert.ok(state.ticket('a'), 'the next one waits on');
  assert.deepEqual(state.next(1), [{ do: 'probe', slot: '0' }]);
});

/** A queue of nobody in which one of two slots is drained, by run `r1`. */
function drainedSlot(): QueueState {
  const state = new QueueState();
  state.setOverride({ slots: 2, capacity: 1 }, 0);
  assert.deepEqual(slotsOf(state.next(0)), ['0', '1']);
  for (const slot of ['0', '1']) state.probed(slot, false, 0);
  assert.deepEqual(state.next(0), [{ do: 'drain', slot: '1' }]);
  state.claimed('1', 'r1', 0);
  assert.deepEqual(state.next(0), []);
  return state;
}

test('a drained slot is renewed, and drained again when it is gone', () => {
  const state = drainedSlot();
  assert.equal(state.dueMs(), DRAIN_RENEWAL_MS);
  assert.deepEqual(state.next(DRAIN_RENEWAL_MS), [{ do: 'renew', slot: '1', runId: 'r1' }]);
  assert.equal(state.dueMs(), 2 * DRAIN_RENEWAL_MS);
  state.gone('1', 'r1');
  assert.deepEqual(state.next(DRAIN_RENEWAL_MS), [{ do: 'drain', slot: '1' }]);
  state.claimed('1', undefined, DRAIN_RENEWAL_MS); // somebody was faster
  assert.deepEqual(state.next(DRAIN_RENEWAL_MS), [{ do: 'probe', slot: '1' }]);
  state.probed('1', true, DRAIN_RENEWAL_MS);
  state.closing({ slot: '1', runId: 'theirs' });
  assert.deepEqual(state.next(DRAIN_RENEWAL_MS), [{ do: 'drain', slot: '1' }]);
});

test('the queue wakes when a pause ends, and gives the slot back then', () => {
  const state = new QueueState();
  state.setOverride({ slots: 1, pauseUntilMs: 5_000 }, 0);
  state.next(0);
  state.probed('0', false, 0);
  assert.deepEqual(state.next(0), [{ do: 'drain', slot: '0' }]);
  state.claimed('0', 'r0', 0);
  assert.deepEqual([state.next(0), state.dueMs()], [[], 5_000]);
  assert.deepEqual(state.next(5_000), [{ do: 'release', slot: '0', runId: 'r0' }]);
});

test('the queue wakes when a capacity ends, and gives the slot back then', () => {
  const state = new QueueState();
  state.setOverride({ slots: 2, capacity: 1, capacityUntilMs: 5_000 }, 0);
  state.next(0);
  state.probed('1', false, 0);
  assert.deepEqual(state.next(0), [{ do: 'drain', slot: '1' }]);
  state.claimed('1', 'r1', 0);
  assert.deepEqual([state.next(0), state.dueMs()], [[], 5_000]);
  const next = new QueueState(state.view()); // the next run
  assert.equal(next.dueMs(), 5_000);
  assert.deepEqual(next.next(5_000), [{ do: 'release', slot: '1', runId: 'r1' }]);
  assert.equal(next.overridden, undefined);
});

test("a drained slot is looked at as soon as it is claimed, if somebody's permit has ended meanwhile", () => {
  const state = new QueueState();
  state.setOverride({ slots: 2, capacity: 1 }, 0);
  state.next(0);
  state.probed('1', false, 0);
  assert.deepEqual(state.next(0), [{ do: 'drain', slot: '1' }]);
  state.closing({ slot: '1', runId: 'theirs' }); // before our claim won, or after somebody had terminated it: the order of signals does not tell
  state.claimed('1', 'ours', 0);
  assert.deepEqual(state.next(0), [{ do: 'renew', slot: '1', runId: 'ours' }]);
  state.gone('1', 'ours');
  assert.deepEqual(state.next(0), [{ do: 'drain', slot: '1' }]);
});

test('a slot that is in use again is released, and the queue is idle only then', () => {
  const state = drainedSlot();
  assert.equal(state.idle, false);
  state.setOverride({ slots: 2, capacity: 2 }, 5);
  assert.equal(state.overridden, undefined);
  assert.equal(state.idle, false);
  assert.deepEqual(state.next(5), [
    { do: 'release', slot: '1', runId: 'r1' },
    { do: 'probe', slot: '0' },
  ]);
  assert.equal(state.idle, true);
  state.enqueue(ticket('a', { slots: 2 }));
  assert.deepEqual(state.next(5), []);
  state.closing({ slot: '1', runId: 'r1' });
  assert.equal(state.next(5)[0]?.do, 'offer');
});

test('a slot that a terminated queue kept out of use is adopted: in use again, it is released; out of use, it stays so', () => {
  const state = new QueueState();
  state.enqueue(ticket('a', { slots: 2 }));
  assert.deepEqual(slotsOf(state.next(0)), ['0', '1']);
  state.drained('0', 'r0'); // before the answer to the look
  state.probed('0', true, 0);
  state.probed('1', true, 0);
  state.drained('1', 'r1');
  assert.deepEqual(state.next(0), [
    { do: 'release', slot: '0', runId: 'r0' },
    { do: 'release', slot: '1', runId: 'r1' },
  ]);
  state.closing({ slot: '0', runId: 'r0' });
  assert.equal(state.next(0)[0]?.do, 'offer');
  const paused = new QueueState();
  paused.setOverride({ slots: 1, paused: true }, 0);
  paused.next(0);
  paused.probed('0', true, 0);
  paused.drained('0', 'r0');
  assert.deepEqual(paused.next(0), [{ do: 'renew', slot: '0', runId: 'r0' }]);
  paused.drained('1', 'r1');
  assert.deepEqual(slotsOf(paused.next(0)), [], 'of a slot that it did not ask, it believes nothing');
});

test('an order has the queue look once at each slot that it names and does not know', () => {
  const state = drainedSlot();
  state.setOverride({ slots: 3, capacity: 3 }, 1);
  assert.deepEqual(slotsOf(state.next(1)), ['1', '0', '2'], '1 is in use again');
  for (const slot of ['0', '2']) state.probed(slot, false, 1);
  state.closing({ slot: '1', runId: 'r1' });
  assert.deepEqual([slotsOf(state.next(1)), state.view().slots], [[], []]);
});

test('a command is in force only when no waiter has a turn for an added slot that the command takes away', () => {
  for (const order of [{ paused: true }, { capacity: 3 }]) {
    const state = new QueueState();
    state.setOverride({ slots: 3, capacity: 4 }, 0);
    const waiter = ticket('a', { slots: 3 });
    state.enqueue(waiter);
    assert.deepEqual(slotsOf(state.next(0)), ['0', '1', '2', '3']);
    for (const slot of ['0', '1', '2', '3']) state.probed(slot, slot !== '3', 0);
    assert.deepEqual(turnsIn(state.next(0)), [['3', 'a']]);
    assert.ok(state.isInForce);
    state.setOverride({ slots: 3, ...order }, 1);
    assert.ok(!state.isInForce, `the waiter may still claim it: ${JSON.stringify(order)}`);
    state.missed(waiter, '3');
    assert.ok(state.isInForce);
  }
});

test('slots that nobody tries by itself are not drained, but never offered', () => {
  const state = new QueueState();
  state.setOverride({ slots: 2, capacity: 4 }, 0);
  state.enqueue(ticket('a', { slots: 2 }));
  assert.deepEqual(slotsOf(state.next(0)), ['0', '1', '2', '3']);
  state.setOverride({ slots: 2, capacity: 2 }, 1);
  for (const slot of ['2', '3']) state.probed(slot, false, 1);
  assert.deepEqual(state.next(1), []);
});

test('one that wants more permits than an operator has left has no place, and keeps nobody waiting', () => {
  const [a, b] = [ticket('a', { permits: 3, slots: 3 }), ticket('b', { slots: 3 })];
  const state = new QueueState();
  assert.ok(state.enqueue(a));
  assert.ok(state.enqueue(b));
  state.setOverride({ slots: 3, paused: true }, 0);
  assert.ok(state.enqueue({ ...a, answer: true }), 'a pause has an end');
  state.setOverride({ slots: 3, capacity: 2, paused: false }, 1);
  assert.deepEqual(
    state.next(1).filter((command) => command.do === 'refuse'),
    [{ do: 'refuse', ticket: { ...a, answer: true } }],
  );
  assert.equal(state.ticket('a'), undefined);
  assert.ok(state.ticket('b'));
  assert.ok(!state.enqueue(a));
  assert.ok(state.enqueue({ ...a, permits: 2 }));
  assert.deepEqual(
    state.next(1).filter((command) => command.do === 'refuse'),
    [],
  );
  state.setOverride({ slots: 3, capacity: 3 }, 2);
  assert.ok(state.enqueue(a));
});

test('one that gives way leaves the line when a better priority waits for what admits it, unless it has its turn', () => {
  const admitted = { inherits: ['r~set'], givesWay: true, priorityKey: 3 };
  const [a, b] = [ticket('a', admitted), ticket('b', { ...admitted, priorityKey: 5 })];
  const [old, c] = [
    ticket('old', { inherits: ['r~set'], priorityKey: 4 }),
    ticket('c', { ...admitted, priorityKey: 5 }),
  ];
  const state = offeredTo(a, b, old, c);
  state.inherit('r~set', 5);
  state.inherit('r~key:x', 1);
  assert.deepEqual(state.next(0), [], 'nobody is better, or waits for something else');
  state.inherit('r~set', 2);
  assert.deepEqual(state.next(0, 1), [{ do: 'give-way', ticket: b }]);
  state.declined('c');
  assert.deepEqual(state.next(0), [], 'the other has left');
  assert.ok(!state.ticket('b'));
  assert.equal(state.ticket('old')?.priorityKey, 2, 'a waiter that does not know it is raised');
  assert.ok(state.missed(a, '0'));
  assert.deepEqual(slotsOf(state.next(0)), ['0']);
  state.inherit('r~set', 2); // the queue asks anew
  assert.deepEqual(state.next(0), [{ do: 'give-way', ticket: a }]);
});

test('a ticket with a bound finds no place behind so many that wait; one that has its place keeps it', () => {
  const [a, b, c] = [ticket('a'), ticket('b', { maxWaiting: 1 }), ticket('c', { maxWaiting: 1 })];
  const state = offeredTo(a);
  assert.ok(state.enqueue(b), 'one that has its turn waits no longer');
  assert.ok(!state.enqueue(c));
  assert.equal(state.ticket('c'), undefined);
  assert.ok(state.enqueue({ ...c, maxWaiting: 2 }), 'each brings its own bound');
  assert.ok(state.enqueue({ ...b, answer: true }), 'it stands there already');
  assert.ok(state.enqueue(ticket('d')), 'a ticket without a bound finds room');
  assert.ok(new QueueState().enqueue(b), 'an empty line is never full');
});

/** Tickets of capacity 2 and a bound of 1, in a queue that knows neither slot. It asks both. */
function inDoubt(...ids: string[]): { state: QueueState; refused: (nowMs: number) => string[] } {
  const state = new QueueState();
  for (const id of ids) assert.ok(state.enqueue(ticket(id, { slots: 2, maxWaiting: 1 })), id);
  assert.deepEqual(slotsOf(state.next(0)), ['0', '1']);
  const refused = (nowMs: number) =>
    state.next(nowMs).flatMap((command) => (command.do === 'refuse' ? command.ticket.id : []));
  return { state, refused };
}

test('nobody is refused by a bound while a slot may be free: those before may be about to have their turns', () => {
  const { state } = inDoubt('a', 'b');
  state.probed('0', false, 1);
  state.probed('1', false, 1);
  assert.deepEqual(
    state.next(1).map((command) => command.do === 'offer' && command.ticket.id),
    ['a', 'b'],
  );
  assert.deepEqual(state.next(2), []);
});

test('once all slots are known to be held, those for whom the line is full are refused', () => {
  const { state, refused } = inDoubt('a', 'b', 'c');
  state.probed('0', true, 1);
  assert.deepEqual(refused(1), []);
  state.probed('1', true, 1);
  assert.deepEqual(refused(1), ['b', 'c']);
  assert.ok(state.ticket('a'));
  assert.ok(!state.enqueue(ticket('d', { slots: 2, maxWaiting: 1 })), 'no doubt any more');
});

test('the next run of the queue settles what was in doubt', () => {
  const { state } = inDoubt('a', 'b', 'c');
  for (const slot of ['0', '1']) state.probed(slot, true, 1);
  const next = new QueueState(state.view());
  next.doubt(state.inDoubt);
  assert.deepEqual(
    next.next(1).map((command) => command.do === 'refuse' && command.ticket.id),
    ['b', 'c'],
  );
});

test('a waiter whose turn was overdue is not refused by its bound when it was beaten', () => {
  const [a, b, c] = [ticket('a', { maxWaiting: 1 }), ticket('b'), ticket('c', { maxWaiting: 1 })];
  const state = offeredTo(a, b);
  state.next(OFFER_TIMEOUT_MS); // its turn is overdue: the queue takes it for gone
  state.probed('0', false, OFFER_TIMEOUT_MS);
  assert.deepEqual(slotsOf(state.next(OFFER_TIMEOUT_MS)), ['0']);
  assert.ok(state.enqueue(c));
  assert.ok(state.missed(a, '0'), 'it stood in line before the others');
});

test('a bound refuses nobody while the queue knows that a slot comes free', () => {
  const state = new QueueState();
  state.enqueue(ticket('a', { maxWaiting: 1 }));
  state.next(0);
  state.probed('0', true, 0);
  assert.deepEqual(slotsOf(state.next(DRAIN_RENEWAL_MS)), ['0'], 'it asks again');
  state.closing({ slot: '0', runId: 'run1' });
  assert.ok(state.enqueue(ticket('b', { maxWaiting: 1 })));
  state.probed('0', true, DRAIN_RENEWAL_MS);
  assert.deepEqual(
    state.next(DRAIN_RENEWAL_MS).map((command) => command.do === 'offer' && command.ticket.id),
    ['a'],
  );
  assert.ok(state.ticket('b'), 'a has the turn');
});

test('a bound refuses nobody while the queue gives back what it kept out of use', () => {
  const state = new QueueState();
  state.setOverride({ slots: 1, paused: true }, 0);
  state.enqueue(ticket('a', { maxWaiting: 1 }));
  state.next(0);
  state.probed('0', false, 0);
  state.next(0);
  state.claimed('0', 'run1', 0);
  assert.ok(!state.enqueue(ticket('b', { maxWaiting: 1 })), 'paused: no slot comes free');
  state.setOverride({ slots: 1, paused: false }, 1);
  assert.ok(state.enqueue(ticket('b', { maxWaiting: 1 })));
  assert.deepEqual(state.next(1), [{ do: 'release', slot: '0', runId: 'run1' }]);
  assert.ok(state.enqueue(ticket('c', { maxWaiting: 2 })));
  state.closing({ slot: '0', runId: 'run1' });
  assert.deepEqual(slotsOf(state.next(2)), ['0']);
  assert.ok(state.ticket('b') && state.ticket('c'), 'a has the turn');
});

/** A queue that knows that its slot is held, and in which nobody waits. */
function held(): QueueState {
  const state = new QueueState();
  state.enqueue(ticket('first'));
  state.next(0);
  state.probed('0', true, 0);
  state.declined('first');
  return state;
}

/** Sends these tickets to a queue whose only slot is held, each before the next. @returns who was dropped for each: "a!" is superseded */
function droppedFor(...tickets: Ticket[]): string[][] {
  const state = held();
  return tickets.map((it) => {
    assert.ok(state.enqueue(it, 0), it.id);
    const dropped = state.next(0).flatMap((command) => (command.do === 'refuse' ? [command] : []));
    for (const { ticket } of dropped) assert.equal(state.ticket(ticket.id), undefined);
    return dropped.map(({ ticket, superseded }) => `${ticket.id}${superseded ? '!' : ''}`);
  });
}

const droppable = (id: string, fields: Partial<Ticket> = {}) =>
  ticket(id, { maxWaiting: 1, whenFull: 'drop-oldest', ...fields });

test('where the oldest is dropped, the newest takes its place', () => {
  assert.deepEqual(droppedFor(droppable('a'), droppable('b'), droppable('c')), [[], ['a!'], ['b!']]);
  const two = { maxWaiting: 2 };
  assert.deepEqual(droppedFor(droppable('a', two), droppable('b', two), droppable('c', two)), [[], [], ['a!']]);
  const [old, late] = [droppable('old', { sinceMs: 1 }), droppable('late', { sinceMs: 2 })];
  assert.deepEqual(droppedFor(late, old), [[], ['old!']], 'they line up again, in whatever order');
});

test('of several priorities, the oldest of the lowest is dropped: the newcomer itself, if its own is the lowest', () => {
  const two = { maxWaiting: 2 };
  const [high, low] = [droppable('high', { ...two, priorityKey: 1 }), droppable('low', { ...two, priorityKey: 4 })];
  assert.deepEqual(droppedFor(high, low, droppable('new', two)), [[], [], ['low!']]);
  assert.deepEqual(droppedFor(high, droppable('mid', two), low), [[], [], ['low']]);
});

test('nobody is dropped that does not say so', () => {
  assert.deepEqual(droppedFor(ticket('plain'), droppable('a')), [[], ['a']]);
  assert.deepEqual(droppedFor(ticket('plain'), droppable('a', { maxWaiting: 2 }), droppable('b')), [[], [], ['a!']]);
});

test('a ticket that was beaten at its turn is dropped for one that came meanwhile', () => {
  const [old, late] = [droppable('old', { sinceMs: 1 }), droppable('late', { sinceMs: 2 })];
  const state = offeredTo(old);
  assert.ok(state.enqueue(late), 'one that has its turn waits no longer');
  assert.ok(state.missed(old, '0', 3));
  state.next(3);
  state.probed('0', true, 3);
  assert.deepEqual(state.next(3), [{ do: 'refuse', ticket: old, superseded: true }]);
  assert.ok(state.ticket('late'));
});

test('a queue that has no room for messages drops the others later', () => {
  const state = held();
  for (const id of ['a', 'b', 'c']) state.enqueue(droppable(id, { maxWaiting: 3 }), 0);
  state.enqueue(droppable('d'), 0);
  const dropped = () => state.next(0, 1).map((command) => command.do === 'refuse' && command.ticket.id);
  assert.deepEqual([dropped(), dropped(), dropped(), dropped()], [['a'], ['b'], ['c'], []]);
});

test('of those in doubt, as many stay as the bound allows behind the turns that were given', () => {
  const { state, refused } = inDoubt('a', 'b', 'c');
  state.probed('0', false, 1);
  state.probed('1', true, 1);
  assert.deepEqual(refused(1), ['c'], 'a has the turn');
  assert.ok(state.ticket('b'));
  assert.equal(state.waitingCount, 1);
});
