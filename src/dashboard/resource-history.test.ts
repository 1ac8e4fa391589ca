import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Inspection, PastHold, PermitInspection, WaiterInspection } from '../operator';
import { ResourceHistory } from './resource-history';

const START_MS = Date.UTC(2026, 0, 1);
const A = { name: 'a', workflowType: 'train', workflowId: 'a', runId: 'run-of-a' };
const at = (ms: number) => new Date(START_MS + ms);

function permit(runId: string, who: string, sinceMs: number, leaseMs?: number): PermitInspection {
  const holder = { workflowId: who, runId: `run-of-${who}`, workflowType: 'train' };
  const leaseDeadline = leaseMs === undefined ? undefined : at(sinceMs + leaseMs);
  return { workflowId: 'permit:gpu:0', runId, taskQueue: 'permits', holder, since: at(sinceMs), leaseDeadline };
}

function waiter(who: string, sinceMs: number): WaiterInspection {
  const names = { ticketId: `ticket-of-${who}`, workflowId: who, runId: `run-of-${who}` };
  return { place: 1, ...names, priorityKey: 3, since: at(sinceMs) };
}

function past(runId: string, who: string, fromMs: number, toMs: number, outcome: PastHold['outcome']): PastHold {
  return {
    slot: '0',
    runId,
    holder: { workflowId: who, runId: `run-of-${who}`, workflowType: 'train' },
    from: at(fromMs),
    to: at(toMs),
    outcome,
  };
}

/** What is found of a resource of one slot. */
function found(held: PermitInspection | undefined, more: Partial<Inspection> = {}): Inspection {
  const slot = held ? { slot: '0', state: 'held' as const, permit: held } : { slot: '0', state: 'free' as const };
  const { slots = [slot] } = more;
  const count = slots.filter(({ state }) => state === 'held').length;
  return { resource: 'gpu', capacity: 1, held: count, slots, waiters: [], queue: 'none', recent: [], ...more };
}

test('a hold is seen to begin and to end; what the server says of it later counts more', () => {
  const history = new ResourceHistory();
  const look = (inspection: Inspection, ms: number) => history.look(inspection, START_MS + ms).holds;
  const hold = { runId: 'r1', slot: '0', holder: A, purpose: undefined, drained: undefined, fromMs: START_MS - 500 };
  assert.deepEqual(look(found(permit('r1', 'a', -500)), 0), [hold]);
  assert.deepEqual(look(found(permit('r2', 'b', 900)), 1_000)[0], { ...hold, toMs: START_MS + 1_000 });
  const recent = [past('r1', 'a', -500, 890, 'revoked')];
  assert.deepEqual(look(found(permit('r2', 'b', 900), { recent }), 5_000)[0], {
    ...hold,
    toMs: START_MS + 890,
    outcome: 'revoked',
  });
});

test('the longest waiter counts although more urgent ones fill the page', () => {
  const urgent = Array.from({ length: 250 }, (_, index) => waiter(`urgent-${index}`, -1_000));
  const { head, waiters } = new ResourceHistory().look(
    found(undefined, { waiters: [...urgent, waiter('patient', -9_000)], queue: 'running' }),
    START_MS,
  );
  assert.deepEqual([head.waiting, head.longestSinceMs, waiters.length], [251, START_MS - 9_000, 200]);
});

test('waits: from joining the line to the permit, nothing for a holder that never stood in it, unknown for one that was there before', () => {
  const history = new ResourceHistory();
  const look = (inspection: Inspection, ms: number) => history.look(inspection, START_MS + ms).head.stats.waits;
  assert.equal(look(found(permit('r1', 'early', -9_000), { waiters: [waiter('a', -4_000)] }), 0), undefined);
  assert.deepEqual(look(found(permit('r2', 'a', 500)), 1_000), { count: 1, p50Ms: 4_500, p95Ms: 4_500, maxMs: 4_500 });
  assert.deepEqual(look(found(permit('r3', 'b', 1_500)), 2_000), { count: 2, p50Ms: 0, p95Ms: 4_500, maxMs: 4_500 });
  // Nobody looked for a while: a holder that came meanwhile may have waited.
  assert.equal(look(found(permit('r4', 'c', 60_000)), 90_000)?.count, 2);
});

test('a hold that began and ended between two looks comes from visibility, and counts', () => {
  const history = new ResourceHistory();
  history.look(found(undefined, { waiters: [waiter('a', -100)] }), START_MS);
  history.look(found(undefined), START_MS + 1_000);
  const recent = [past('r1', 'a', 300, 700, 'released')];
  const { holds, head } = history.look(found(undefined, { recent }), START_MS + 2_000);
  assert.equal(holds.length, 1);
  assert.equal(head.stats.grantsPerMinute, 1);
  assert.equal(head.stats.waits?.maxMs, 400);
  assert.equal(head.stats.holds?.maxMs, 400);
});

test('the slots that a pause takes out of use are no grants', () => {
  const history = new ResourceHistory();
  const drained = ['1', '2', '3', '4', '5'].map((slot) => {
    return { slot, state: 'drained' as const, permit: permit(`drain-${slot}`, 'the-queue', 100) };
  });
  history.look(found(undefined, { slots: drained }), START_MS + 1_000);
  assert.equal(history.look(found(permit('r1', 'a', 1_500)), START_MS + 2_000).head.stats.grantsPerMinute, 1);
});

test('the past is forgotten after five minutes, and kept small; who still holds is not forgotten', () => {
  const history = new ResourceHistory();
  const long = permit('long', 'a', 0);
  for (let second = 0; second < 400; second++) {
    const recent = Array.from({ length: 10 }, (_, index) =>
      past(`r${second}-${index}`, 'b', second * 1_000, second * 1_000 + 1, 'released'),
    );
    const { holds } = history.look(found(long, { recent }), START_MS + second * 1_000);
    assert.ok(holds.length <= 601, `${holds.length} holds`);
    assert.ok(holds.some(({ runId }) => runId === 'long'));
  }
  const { holds } = history.look(found(undefined), START_MS + 1_000_000);
  assert.deepEqual(
    holds.map(({ runId }) => runId),
    ['long'],
  );
  assert.deepEqual(history.look(found(undefined), START_MS + 2_000_000).holds, []);
});

test('the page says what is paused on the server: a permit with its state, and the queue, whose waiters are those of the last look', () => {
  const history = new ResourceHistory();
  history.look(found(undefined, { queue: 'running', waiters: [waiter('a', -100)] }), START_MS);
  const { head, slots, load } = history.look(
    found({ ...permit('r1', 'a', 0), paused: true }, { queue: 'paused' }),
    START_MS + 1_000,
  );
  assert.equal(slots[0]?.permit?.paused, true);
  assert.deepEqual([head.waiting, head.waitersAsOfMs, load[0]?.waiting], [1, START_MS, 1]);
  assert.match(
    head.paused?.join('\n') ?? '',
    /^permit:gpu:0, .* unpause -w permit:gpu:0\npermit-queue:gpu .* unpause -w permit-queue:gpu$/,
  );
  assert.equal(history.look(found(undefined), START_MS + 2_000).head.paused, undefined);
});

test('while the queue is silent, the waiters are those of the last look that told; without one, nobody knows', () => {
  const history = new ResourceHistory();
  const silent = found(undefined, { queue: 'silent' });
  const before = history.look(silent, START_MS);
  assert.deepEqual([before.head.waiting, before.head.waitersAsOfMs, before.waiters], [undefined, undefined, []]);
  history.look(found(undefined, { queue: 'running', waiters: [waiter('a', -100)] }), START_MS + 1_000);
  const { head, waiters } = history.look(silent, START_MS + 2_000);
  assert.deepEqual([head.waiting, head.waitersAsOfMs], [1, START_MS + 1_000]);
  assert.deepEqual(
    waiters.map(({ waiter }) => waiter.name),
    ['a'],
  );
  assert.equal(history.look(found(undefined), START_MS + 3_000).head.waiting, 0);
});

test('the load over time: the mean held and the most waiters of each step; no waiters where the queue is silent, no step where nobody looked', () => {
  const history = new ResourceHistory();
  const look = (inspection: Inspection, ms: number) =>
    history.look(inspection, START_MS + ms).load.map(({ atMs, ...step }) => ({ atMs: atMs - START_MS, ...step }));
  const line = (...names: string[]) => ({ queue: 'running' as const, waiters: names.map((name) => waiter(name, 0)) });
  look(found(undefined), 0);
  look(found(permit('r1', 'a', 0), line('b')), 1_000);
  assert.deepEqual(look(found(permit('r1', 'a', 0), line('b', 'c')), 4_999), [
    { atMs: 0, held: 0.7, waiting: 2, capacity: 1 },
  ]);
  assert.deepEqual(look(found(permit('r1', 'a', 0), { queue: 'silent' }), 20_000).slice(1), [
    { atMs: 20_000, held: 1, waiting: undefined, capacity: 1 },
  ]);
  assert.deepEqual(
    look(found(undefined), 306_000).map(({ atMs }) => atMs),
    [20_000, 305_000],
  );
});

test("a full lease is the longest that was left, so that its bar doesn't jump", () => {
  const history = new ResourceHistory();
  const span = (leaseMs: number, ms: number) =>
    history.look(found(permit('r1', 'a', 0, leaseMs)), START_MS + ms).slots[0]?.permit?.leaseSpanMs;
  assert.equal(span(30_000, 1_000), 29_000);
  assert.equal(span(30_000, 9_000), 29_000);
  assert.equal(span(40_000, 10_000), 30_000);
});
