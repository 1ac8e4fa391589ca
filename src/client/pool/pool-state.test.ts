import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LineEntry } from './caller-line';
import type { Place } from './pool-sizing';
import { type Held, type PoolCommand, type PoolRules, PoolState } from './pool-state';

class Caller extends LineEntry {
  constructor(
    readonly name: string,
    priorityKey = 3,
    deadlineMs = Number.POSITIVE_INFINITY,
  ) {
    super(priorityKey, deadlineMs);
  }
}

interface Permit {
  slot: string;
}

type Command = PoolCommand<Caller, Permit>;
const NOBODY = { tickets: [], isInUse: () => true };

/** A pool at time 0 whose commands are looked at one by one. */
function start(rules: Partial<PoolRules> = {}) {
  const lost = new Set<Permit>();
  const state = new PoolState<Caller, Permit>(
    { id: 'pool', max: 3, reuseForMs: 1_000, idleForMs: 200, retireAfterMs: 60_000, ...rules },
    (permit) => !lost.has(permit),
  );
  let slots = 0;
  return {
    state,
    lost,
    call(...names: string[]) {
      for (const name of names) state.enqueue(new Caller(name));
    },
    permit: (nowMs: number, place?: Place) => state.acquired({ slot: String(slots++) }, nowMs, place),
  };
}

/** Commands in short: `serve:a`, `try:2`, `line-up:1`. */
function said(commands: Command[]): string {
  return commands
    .map((command) => {
      if ('place' in command) return `${command.do}:${command.place.nth}`;
      if (command.do === 'try') return `try:${command.count}${command.everySlot ? ':every' : ''}`;
      if (command.do === 'release') return `release:${command.held.permit.slot}`;
      return 'caller' in command && command.caller ? `${command.do}:${command.caller.name}` : command.do;
    })
    .join(' ');
}

function heldBy(commands: Command[], name: string): Held<Permit> {
  const found = commands.find((command) => command.do === 'serve' && command.caller.name === name);
  assert.ok(found?.do === 'serve', `${name} was served`);
  return found.held;
}

function placeIn(commands: Command[]): Place {
  const found = commands.find((command) => command.do === 'line-up');
  assert.ok(found?.do === 'line-up');
  return found.place;
}

test('callers that come at once get as many tries as there may be permits, and then the permits in turn', () => {
  const { state, call, permit } = start();
  call('a', 'b', 'c', 'd', 'e');
  assert.equal(said(state.next(0)), 'try:3');
  permit(10);
  const first = state.next(10);
  assert.equal(said(first), 'serve:a');
  permit(11);
  permit(11);
  assert.equal(said(state.next(11)), 'serve:b serve:c'.split(' ').join(' '));
  state.tried(12);
  state.finished(heldBy(first, 'a'), 20);
  assert.equal(said(state.next(20)), 'serve:d', 'without any call to the server');
});

test('a caller that waits only a moment for a permit in use here costs no call to the server', () => {
  const { state, call, permit } = start();
  call('a');
  assert.equal(said(state.next(0)), 'try:1');
  permit(5);
  state.tried(5);
  const commands = state.next(5);
  call('b');
  assert.equal(said(state.next(6)), '');
  assert.equal(state.dueMs(), 16);
  state.finished(heldBy(commands, 'a'), 9);
  assert.equal(said(state.next(9)), 'serve:b');
  call('c');
  assert.equal(said(state.next(10)), '');
  assert.equal(said(state.next(20)), 'try:1', 'when it waits longer, the pool grows');
});

test('an idle permit goes back after idleFor', () => {
  const { state, call, permit } = start();
  call('a');
  state.next(0);
  permit(5);
  state.tried(5);
  state.finished(heldBy(state.next(5), 'a'), 100);
  assert.equal(said(state.next(100)), '');
  assert.equal(state.dueMs(), 300);
  assert.equal(said(state.next(299)), '');
  assert.equal(said(state.next(300)), 'release:0');
  assert.equal(state.isEmpty, false, 'until it is back');
});

test('a try in vain makes the pool line up: four places without a permit, one with', () => {
  const { state, call } = start({ max: 10 });
  call(...'abcdefgh');
  assert.equal(said(state.next(0)), 'try:8');
  state.tried(10);
  const commands = state.next(10);
  assert.equal(said(commands), 'line-up:1 line-up:2 line-up:3 line-up:4');
  state.acquired({ slot: '0' }, 20, placeIn(commands));
  assert.equal(
    said(state.next(20)),
    'serve:a look',
    'three places are left, and no more are taken before it has looked',
  );
});

test('a place that asks for less than the pool has by now is left: it would take from those that have no more', () => {
  const { state, call, permit } = start({ max: 2 });
  call('a', 'b', 'c');
  state.next(0);
  state.tried(10);
  const [, second] = state.next(10).flatMap((command) => (command.do === 'line-up' ? command.place : []));
  permit(20, second);
  assert.equal(said(state.next(20)), 'serve:a leave:1');
});

test('after a permit has come through the line the pool looks: where nobody waits, it tries again', () => {
  const { state, call } = start({ max: 10 });
  call('a', 'b', 'c');
  state.next(0);
  state.tried(10);
  const places = state.next(10).flatMap((command) => (command.do === 'line-up' ? command.place : []));
  for (const place of places) state.acquired({ slot: String(place.nth) }, 20, place);
  assert.equal(said(state.next(20)), 'serve:a serve:b serve:c');
  call('d', 'e');
  state.next(30);
  assert.equal(said(state.next(41)), 'look');
  state.looked(NOBODY, 50);
  assert.equal(said(state.next(50)), 'try:2');
});

test('while others wait, a permit goes back at the end of the call that passes reuseFor, and the pool lines up', () => {
  const { state, call, permit } = start({ max: 1 });
  call('a', 'b', 'c', 'd');
  state.next(0);
  permit(0);
  state.tried(0);
  let held = heldBy(state.next(0), 'a');
  state.finished(held, 700);
  const second = state.next(700);
  assert.equal(said(second), 'serve:b', 'not ripe, no look');
  held = heldBy(second, 'b');
  state.finished(held, 850);
  assert.equal(said(state.next(850)), 'look serve:c');
  state.looked({ tickets: [{ id: 'acquirer' }], isInUse: () => true }, 860);
  assert.equal(said(state.next(860)), '');
  state.finished(held, 1_001);
  assert.equal(said(state.next(1_001)), 'release:0');
  state.ended(held);
  assert.equal(said(state.next(1_050)), 'line-up:1', 'behind the others, without a try');
});

test('after a long call the permit waits for the look; without an answer it serves on', () => {
  for (const answer of ['others', 'nobody', 'silence'] as const) {
    const { state, call, permit } = start({ max: 1 });
    call('a', 'b');
    state.next(0);
    permit(0);
    state.tried(0);
    const held = heldBy(state.next(0), 'a');
    state.finished(held, 5_000);
    assert.equal(said(state.next(5_000)), 'look');
    if (answer === 'silence') {
      assert.equal(state.dueMs(), 5_250);
      assert.equal(said(state.next(5_250)), 'serve:b');
    } else {
      state.looked(answer === 'others' ? { tickets: [{ id: 'acquirer' }], isInUse: () => true } : NOBODY, 5_010);
      assert.equal(said(state.next(5_010)), answer === 'others' ? 'release:0' : 'serve:b');
    }
  }
});

test('a slot that an operator has taken out of use goes back although callers wait here', () => {
  const { state, call, permit } = start({ max: 1 });
  call('a', 'b');
  state.next(0);
  permit(0);
  state.tried(0);
  state.finished(heldBy(state.next(0), 'a'), 1_500);
  state.next(1_500);
  state.looked({ tickets: [], isInUse: () => false }, 1_510);
  assert.equal(said(state.next(1_510)), 'release:0');
});

test('a permit that was held for long goes back although nobody waits', () => {
  const { state, call, permit } = start({ max: 1, retireAfterMs: 500 });
  call('a', 'b');
  state.next(0);
  permit(0);
  state.tried(0);
  const held = heldBy(state.next(0), 'a');
  state.finished(held, 500);
  assert.equal(said(state.next(500)), 'release:0');
  state.ended(held);
  assert.equal(said(state.next(550)), 'try:1');
});

test('a lost permit serves nobody; the callers behind get another', () => {
  const { state, call, permit, lost } = start({ max: 1 });
  call('a', 'b');
  state.next(0);
  permit(0);
  state.tried(0);
  const held = heldBy(state.next(0), 'a');
  state.ended(held);
  assert.equal(said(state.next(50)), 'try:1');
  state.finished(held, 60);
  assert.equal(said(state.next(60)), '', 'the end of the lost call frees nothing');
  const second = { slot: '1' };
  lost.add(second);
  state.acquired(second, 70);
  state.tried(70);
  assert.equal(said(state.next(70)), 'try:1', 'one that is lost before it serves, too');
});

test('timeouts, and callers that leave', () => {
  const { state } = start();
  const late = new Caller('late', 3, 100);
  const leaver = new Caller('leaver', 3, 50);
  state.enqueue(late);
  state.enqueue(leaver);
  assert.equal(said(state.next(0)), 'try:2');
  assert.equal(state.dueMs(), 50);
  assert.equal(state.withdraw(leaver), true);
  assert.equal(state.withdraw(leaver), false);
  assert.equal(state.dueMs(), 100);
  assert.equal(said(state.next(100)), 'time-out:late');
});

test('a caller that does not wait: a try of every slot, or no at once', () => {
  const { state, call, permit } = start({ max: 1 });
  state.tryOnce(new Caller('t'));
  assert.equal(said(state.next(0)), 'try:1:every');
  state.tried(10);
  assert.equal(said(state.next(10)), 'refuse:t');
  state.tryOnce(new Caller('u'));
  state.next(20);
  permit(25);
  assert.equal(said(state.next(25)), 'serve:u');
  state.tried(25);
  state.tryOnce(new Caller('v'));
  assert.equal(said(state.next(30)), 'refuse:v', 'the pool has its max');
  call('w');
  state.tryOnce(new Caller('x'));
  assert.equal(said(state.next(40)), 'refuse:x', 'others wait');
});

test('40 callers that do not wait, on 40 free slots: each gets one', () => {
  const pool = start({ max: 40 });
  for (let n = 0; n < 40; n++) pool.state.tryOnce(new Caller(`c${n}`, 3, 0));
  const done: string[] = [];
  for (let commands = pool.state.next(0); commands.length > 0; commands = pool.state.next(0)) {
    for (const command of commands) {
      done.push(command.do);
      if (command.do !== 'try') continue;
      for (let n = 0; n < command.count; n++) pool.permit(0);
      pool.state.tried(0);
    }
  }
  assert.equal(done.filter((what) => what === 'serve').length, 40, `${done}`);
});

test('50 callers that do not wait, on 40 slots of which 5 are free: one try of every slot serves 5 and refuses the rest', () => {
  const pool = start({ max: 40 });
  for (let n = 0; n < 50; n++) pool.state.tryOnce(new Caller(`c${n}`, 3, 0));
  assert.equal(pool.state.next(0).length, 1);
  for (let n = 0; n < 5; n++) pool.permit(0);
  pool.state.tried(0);
  const done = pool.state.next(0).map((command) => command.do);
  assert.deepEqual(done, [...Array(5).fill('serve'), ...Array(45).fill('refuse')]);
});

test('what the server refuses is told to all who wait, when nothing is held', () => {
  const { state, call } = start();
  call('a', 'b');
  state.next(0);
  state.tried(10, { error: 'no permission', passes: false });
  assert.equal(said(state.next(10)), 'fail:a fail:b');
  call('c');
  assert.equal(said(state.next(20)), 'try:1', 'who comes later tries anew');
  state.tried(30, { error: 'unavailable', passes: true });
  assert.equal(said(state.next(30)), 'line-up:1', 'what passes is waited out');
});

test('an urgent caller gets a place of its own in line, or one in exchange', () => {
  for (const [max, expected] of [
    [3, 'line-up:3'],
    [2, 'leave:2'],
  ] as const) {
    const { state, call } = start({ max });
    call('a', 'b');
    state.next(0);
    state.tried(10);
    assert.equal(said(state.next(10)), 'line-up:1 line-up:2');
    state.enqueue(new Caller('urgent', 1));
    assert.equal(said(state.next(20)), expected);
    assert.equal(said(state.next(21)), '');
  }
});

test('a place that nobody waits for is left after idleFor', () => {
  const { state } = start();
  const callers = ['a', 'b'].map((name) => new Caller(name));
  for (const caller of callers) state.enqueue(caller);
  state.next(0);
  state.tried(10);
  state.next(10);
  for (const caller of callers) state.withdraw(caller);
  assert.equal(said(state.next(20)), '');
  assert.equal(state.dueMs(), 220);
  assert.equal(said(state.next(220)), 'leave:2 leave:1');
});

test('closed while it was about to grow, it is not due any more: a timer in the past would ring for ever', () => {
  const { state, call, permit } = start({ max: 3 });
  call('a');
  state.next(0);
  permit(10);
  state.tried(10);
  state.next(10);
  call('b');
  state.next(20);
  assert.ok(state.dueMs() < Number.POSITIVE_INFINITY, 'it looks for another permit soon');
  state.close();
  state.next(30);
  assert.equal(state.dueMs(), Number.POSITIVE_INFINITY);
});

test('closed, it gives each permit back at the end of its call, and serves nobody (P6)', () => {
  const { state, call, permit } = start({ max: 2 });
  call('a', 'b');
  state.next(0);
  permit(0);
  permit(0);
  state.tried(0);
  const commands = state.next(0);
  state.finished(heldBy(commands, 'b'), 10);
  state.next(10);
  call('c', 'd');
  state.next(11);
  call('e');
  assert.deepEqual(
    state.close().map(({ name }) => name),
    ['d', 'e'],
  );
  assert.equal(said(state.next(20)), '');
  state.finished(heldBy(commands, 'a'), 30);
  assert.equal(said(state.next(30)), 'release:1');
  permit(40);
  assert.equal(said(state.next(40)), 'release:2', 'one that was under way');
  assert.equal(state.isEmpty, false);
});

test('a pool keeps its permit from one of lower priority while its own callers wait', () => {
  for (const [priorityKey, given] of [
    [5, false],
    [1, true],
  ] as const) {
    const { state, permit } = start({ max: 1 });
    for (const name of ['a', 'b', 'c']) state.enqueue(new Caller(name, 1));
    state.next(0);
    permit(0);
    const held = heldBy(state.next(0), 'a');
    state.finished(held, 850);
    state.next(850);
    state.looked({ tickets: [{ id: 'acquirer', priorityKey }], isInUse: () => true }, 860);
    state.finished(held, 1_000);
    assert.equal(said(state.next(1_000)).includes('release:0'), given, `priority ${priorityKey}`);
  }
});
