import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { QueueView, Ticket } from '../../shared/protocol';
import { handOn, readHandedOn } from './handed-on';
import { QueueState } from './queue-state';
import { SILENT_MS } from './roll-call';

const START_MS = 1_795_000_000_000;

let made = 0;

function ticket(id: string, fields: Partial<Ticket> = {}): Ticket {
  const runId = `01a20256-b993-7dd0-bd87-${(++made).toString(16).padStart(12, '0')}`;
  return { id, waiter: { workflowId: id, runId }, slots: 1, sinceMs: START_MS, ...fields };
}

/** Waiters for a slot that is held. */
function lineOf(tickets: readonly Ticket[], view?: QueueView): QueueState {
  const state = new QueueState(view);
  for (const one of tickets) state.enqueue(one);
  for (const command of state.next(START_MS)) if (command.do === 'probe') state.probed('0', true, START_MS);
  return state;
}

function newcomer(maxWaiting: number, nowMs: number): Ticket {
  return ticket(`new-${made}`, { maxWaiting, sinceMs: nowMs });
}

/** What the queue does now about its waiters. Its slot is held. */
function doings(state: QueueState, nowMs: number): string[] {
  return state.next(nowMs).flatMap((command) => {
    if (command.do === 'probe') state.probed('0', true, nowMs);
    return command.do === 'ask-waiter' || command.do === 'refuse' ? `${command.do} ${command.ticket.id}` : [];
  });
}

const questions = (waiters: readonly Ticket[]) => waiters.map(({ id }) => `ask-waiter ${id}`);

test('before a line is called full, the queue asks those that have been silent, and takes the caller in for one that is gone', () => {
  const waiters = ['a', 'b', 'c'].map((id) => ticket(id));
  const state = lineOf(waiters);
  const nowMs = START_MS + SILENT_MS;
  const late = newcomer(3, nowMs);
  assert.ok(state.enqueue(late, nowMs), 'nobody knows yet whether it has room');
  assert.deepEqual(doings(state, nowMs), questions(waiters));
  for (const waiter of waiters) {
    assert.deepEqual(doings(state, nowMs), [], 'all answers are awaited');
    state.present(waiter, waiter.id !== 'b', nowMs);
  }
  assert.deepEqual(doings(state, nowMs), []);
  assert.deepEqual(
    state.view().tickets.map(({ id }) => id),
    ['a', 'c', late.id],
  );
});

test('where all are there, the caller is refused, and the next one at once; after half a minute all are asked again', () => {
  const waiters = ['a', 'b'].map((id) => ticket(id));
  const state = lineOf(waiters);
  for (const nowMs of [START_MS + SILENT_MS, START_MS + 2 * SILENT_MS]) {
    const late = newcomer(2, nowMs);
    assert.ok(state.enqueue(late, nowMs));
    assert.deepEqual(doings(state, nowMs), questions(waiters));
    for (const waiter of waiters) state.present(waiter, true, nowMs);
    assert.deepEqual(doings(state, nowMs), [`refuse ${late.id}`]);
    assert.equal(state.enqueue(newcomer(2, nowMs), nowMs + SILENT_MS - 1), false);
  }
});

test('who has sent a word in the last half-minute is not asked', () => {
  const waiters = ['a', 'b', 'c'].map((id) => ticket(id)) as [Ticket, Ticket, Ticket];
  const state = lineOf(waiters);
  state.enqueue({ ...waiters[1], answer: true }, START_MS + 5_000);
  const nowMs = START_MS + SILENT_MS;
  assert.ok(state.enqueue(newcomer(3, nowMs), nowMs));
  assert.deepEqual(doings(state, nowMs), questions([waiters[0], waiters[2]]));
});

test('a line that is not full, or whose callers have no bound, asks nobody, however long they wait', () => {
  const state = lineOf(['a', 'b', 'c'].map((id) => ticket(id)));
  for (let nowMs = START_MS; nowMs < START_MS + 3_600_000; nowMs += 10_000) {
    assert.ok(state.enqueue(newcomer(1_000, nowMs), nowMs));
    assert.ok(state.enqueue({ ...newcomer(1, nowMs), maxWaiting: undefined }, nowMs));
    assert.deepEqual(doings(state, nowMs), []);
  }
});

test('a Workflow with many tickets is asked once, and all leave with it', () => {
  const many = Array.from({ length: 5 }, (_, n) => ticket(`t${n}`));
  const { waiter } = many[0] as Ticket;
  const state = lineOf([...many.map((it) => ({ ...it, waiter })), ticket('b')]);
  const nowMs = START_MS + SILENT_MS;
  assert.ok(state.enqueue(newcomer(6, nowMs), nowMs));
  const asked = state.next(nowMs).flatMap((command) => (command.do === 'ask-waiter' ? command.ticket : []));
  assert.equal(asked.length, 2);
  for (const one of asked) state.present(one, one.id === 'b', nowMs);
  assert.equal(state.waitingCount, 2);
});

test("a Workflow's next run takes the place of what its earlier runs have waited for, also where the line is full", () => {
  const state = lineOf(['a', 'b'].map((id) => ticket(id)));
  const { waiter } = ticket('a');
  const again = { ...newcomer(2, START_MS), waiter: { ...waiter, workflowId: 'a' } };
  assert.ok(state.enqueue(again, START_MS));
  assert.deepEqual(
    state.view().tickets.map(({ id }) => id),
    ['b', again.id],
  );
});

test('the next run of the queue settles what a round has left open, and asks nobody again too early', () => {
  const waiters = ['a', 'b'].map((id) => ticket(id));
  const nextRun = (state: QueueState) => {
    const wire = JSON.parse(JSON.stringify(handOn(state)));
    const handedOn = readHandedOn('pool', wire);
    const next = new QueueState(handedOn.view);
    next.doubt(handedOn.inDoubt);
    return next;
  };
  let nowMs = START_MS + SILENT_MS;
  const first = lineOf(waiters);
  const late = newcomer(2, nowMs);
  assert.ok(first.enqueue(late, nowMs));
  assert.deepEqual(doings(first, nowMs), questions(waiters));
  const second = nextRun(first);
  assert.deepEqual(doings(second, nowMs), questions(waiters), 'the first run had no answers');
  for (const waiter of waiters) second.present(waiter, true, nowMs);
  assert.deepEqual(doings(second, nowMs), [`refuse ${late.id}`]);

  nowMs += SILENT_MS - 1;
  const third = nextRun(second);
  assert.equal(third.enqueue(newcomer(2, nowMs), nowMs), false);
  nowMs += 2;
  assert.ok(third.enqueue(newcomer(2, nowMs), nowMs));
  assert.deepEqual(doings(third, nowMs), questions(waiters));
});

test('in a line that is full for ten days, a waiter is asked ever more rarely, also where the queue continues as new', () => {
  for (const everyMs of [Number.POSITIVE_INFINITY, 5_000]) {
    const waiter = ticket('a');
    let state = lineOf([waiter]);
    let asked = 0;
    let longestMs = 0;
    let askedAtMs = START_MS;
    let runMs = START_MS;
    for (let nowMs = START_MS; nowMs < START_MS + 10 * 86_400_000; nowMs += 10_000) {
      if (nowMs - runMs > everyMs) [state, runMs] = [new QueueState(state.view()), nowMs];
      if (!state.enqueue(newcomer(1, nowMs), nowMs)) continue;
      for (const command of state.next(nowMs)) {
        if (command.do === 'probe') state.probed('0', true, nowMs);
        if (command.do !== 'ask-waiter') continue;
        asked++;
        longestMs = Math.max(longestMs, (nowMs - askedAtMs) / Math.max(7_200_000, nowMs - START_MS));
        askedAtMs = nowMs;
        state.present(command.ticket, true, nowMs);
      }
      state.next(nowMs);
    }
    assert.ok(asked > 600 && asked < 1_300, `${asked} times`);
    assert.ok(longestMs < 1 / 100, `after ${longestMs} of its wait`);
  }
});

test('however long the line, the questions go out a few at a time', () => {
  const waiters = Array.from({ length: 1_000 }, (_, n) => ticket(`t${n}`));
  const state = lineOf(waiters);
  const nowMs = START_MS + SILENT_MS;
  assert.ok(state.enqueue(newcomer(1_000, nowMs), nowMs));
  const asked = new Set<string>();
  for (let round = 0; round < 16; round++) {
    const commands = state.next(nowMs, 64);
    assert.ok(commands.length <= 64);
    for (const command of commands) {
      if (command.do !== 'ask-waiter') continue;
      asked.add(command.ticket.id);
      state.present(command.ticket, true, nowMs);
    }
  }
  assert.equal(asked.size, 1_000);
});
