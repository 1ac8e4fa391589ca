import assert from 'node:assert/strict';
import { test } from 'node:test';
import { QueueState } from './queue-state';
import { StartRule } from './start-rule';

const RUN = '01a20256-b993-7dd0-bd87-d0d86fabc517';
const closing = (startedAtMs?: number, kept?: true, slot = '0') => ({
  slot,
  runId: RUN,
  ...(startedAtMs !== undefined && { startedAtMs }),
  ...(kept && { kept }),
});
const ruleAfter = (...notices: ReturnType<typeof closing>[]) => {
  const rule = new StartRule(undefined);
  for (const notice of notices) rule.closing(notice);
  return rule;
};

test('a claim that hung suggests the rule; nothing else does', () => {
  assert.equal(ruleAfter(closing(5_000)).holds, false);
  assert.equal(ruleAfter(closing(5_000, true)).holds, true);
  assert.equal(ruleAfter(closing(undefined, true)).holds, false, 'a permit that tells no start');
});

test('two starts of a slot within half a second disprove it for good', () => {
  assert.equal(ruleAfter(closing(5_000, true), closing(5_499)).holds, false);
  assert.equal(ruleAfter(closing(5_000, true), closing(5_499), closing(9_000, true)).holds, false);
  assert.equal(ruleAfter(closing(5_000), closing(5_499), closing(9_000, true)).holds, false);
  assert.equal(ruleAfter(closing(5_000, true), closing(5_500)).holds, true, 'the server tells the time a little early');
  assert.equal(ruleAfter(closing(5_000, true), closing(5_001, undefined, '1')).holds, true, 'another slot');
});

test('a notice that comes twice, or late, disproves nothing', () => {
  assert.equal(ruleAfter(closing(5_000, true), closing(5_000, true)).holds, true);
  assert.equal(ruleAfter(closing(5_000, true), closing(4_500)).holds, true);
});

test('a slot rests for a second from its last start, and only where the rule holds', () => {
  assert.equal(ruleAfter(closing(5_000)).restsUntilMs('0'), 0);
  const rule = ruleAfter(closing(5_000, true));
  assert.equal(rule.restsUntilMs('0'), 6_000);
  assert.ok(rule.restsUntilMs('1') <= 0);
  assert.deepEqual(rule.turn('0', 60_000), { paced: true, laterMs: 1_000 });
});

test('now and then a turn tries the rule: its slot does not rest, and the claim after it may hang', () => {
  const rule = ruleAfter(closing(5_000, true));
  const trials = Array.from({ length: 200 }, (_, index) => [index + 1, rule.turn('0', 60_000).paced]);
  assert.deepEqual(
    trials.flatMap(([nth, paced]) => (paced ? [] : nth)),
    [16, 48, 144],
  );
  const tried = ruleAfter(closing(5_000, true));
  for (let nth = 1; nth <= 16; nth++) tried.turn('0', 20_000);
  tried.closing(closing(20_000));
  assert.equal(tried.restsUntilMs('0'), 0);
  assert.deepEqual(tried.turn('0', 20_050), { paced: true, laterMs: 4_000 });
  tried.closing(closing(22_500, true));
  assert.equal(tried.restsUntilMs('0'), 23_500);
});

test('where nothing is known, no turn is paced, and a claim that comes early has its time', () => {
  const rule = ruleAfter(closing(5_000));
  assert.deepEqual(rule.turn('0', 5_500), { paced: false, laterMs: 3_000 });
  assert.deepEqual(rule.turn('0', 6_000), { paced: false, laterMs: 0 });
  rule.closing(closing(5_400)); // disproved
  assert.deepEqual(rule.turn('0', 5_700), { paced: false, laterMs: 0 });
});

test('a queue rests a free slot that somebody wants, then offers it, and its next run knows the rule', () => {
  const state = new QueueState();
  const ticket = (id: string) => ({ id, waiter: { workflowId: id, runId: RUN }, slots: 1, sinceMs: 0 });
  state.enqueue(ticket('first'));
  assert.deepEqual(
    state.next(5_000).map(({ do: it }) => it),
    ['probe'],
  );
  state.probed('0', true, 5_010);
  state.closing(closing(5_000, true));
  assert.deepEqual(state.next(5_100), [], 'it rests');
  assert.equal(state.dueMs(), 6_000);
  const next = new QueueState(state.view());
  next.closing(closing(5_000, true)); // the last run may have missed it
  for (const it of [state, next]) {
    assert.deepEqual(
      it.next(6_000).map((command) => command.do === 'offer' && [command.ticket.id, command.paced]),
      [['first', true]],
    );
  }
});
