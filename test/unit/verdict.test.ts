import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { HoldInterval } from '../../scripts/support/holder-intervals';
import { type Finisher, judge } from '../../scripts/support/verdict';

const finisher = (consumer: string): Finisher => ({ consumer, startedMs: 0, outcome: { ok: true } });

function hold(holder: string, slot: string, fromMs: number, toMs: number): HoldInterval {
  return { holder, slot, fromMs, toMs, runId: `run-of-${holder}` };
}

const TWO = [finisher('a'), finisher('b')];

test('a run in which everybody finished within the capacity has no problem', () => {
  const verdict = judge(TWO, [hold('b', '0', 5, 10), hold('a', '0', 10, 20)], 1);
  assert.deepEqual(verdict.problems, []);
  assert.equal(verdict.finished, 2);
  assert.equal(verdict.most, 1);
  assert.equal(verdict.mostOfAll, undefined);
  assert.deepEqual(
    verdict.rows.map(({ consumer, hold }) => [consumer, hold?.runId]),
    [
      ['b', 'run-of-b'],
      ['a', 'run-of-a'],
    ],
  );
});

test('more holds than the capacity are a problem', () => {
  const { most, problems } = judge(TWO, [hold('a', '0', 0, 10), hold('b', '1', 9, 20)], 1);
  assert.equal(most, 2);
  assert.deepEqual(problems, ['More permits than the capacity: 2 at once, capacity 1.']);
});

test('two holds of one slot are a problem, also within the capacity', () => {
  const { problems } = judge(TWO, [hold('a', '0', 0, 10), hold('b', '0', 9, 20)], 2);
  assert.deepEqual(problems, ['Slot 0 was held by a and b at once.']);
});

test('a body that ran outside its hold is a problem, whatever the times say', () => {
  const { problems } = judge(TWO, [hold('a', '0', 0, 10), { ...hold('b', '1', 0, 10), strayed: true }], 2);
  assert.deepEqual(problems, ['b worked without its permit of slot 1.']);
});

test('a consumer that failed is a problem, and does not count as finished', () => {
  const failed: Finisher = { ...finisher('b'), outcome: { ok: false, why: 'GPU on fire' } };
  const { finished, problems, rows } = judge([failed, finisher('a')], [hold('a', '0', 0, 10)], 1);
  assert.equal(finished, 1);
  assert.deepEqual(problems, ['b failed: GPU on fire']);
  assert.equal(rows.at(-1)?.hold, undefined);
});

test("others' holds do not raise this run's maximum, but break its promises", () => {
  const own = [hold('a', '0', 0, 10), hold('b', '1', 0, 10)];
  const within = judge(TWO, [...own, hold('x', '2', 5, 10)], 3);
  assert.deepEqual([within.most, within.mostOfAll, within.problems], [2, 3, []]);

  const beyond = judge(TWO, [...own, hold('x', '2', 5, 10)], 2);
  assert.equal(beyond.most, 2);
  assert.deepEqual(beyond.problems, [
    'With others, 3 permits at once, capacity 2: everybody must use the same capacity.',
  ]);

  const clash = judge(TWO, [...own, hold('x', '0', 5, 20)], 3);
  assert.deepEqual(clash.problems, ['Slot 0 was held by a and x at once.']);
});
