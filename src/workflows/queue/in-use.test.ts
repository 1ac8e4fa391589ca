import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Ticket } from '../../shared/protocol';
import { readOverride } from '../../shared/queue-view';
import { InUse } from './in-use';

function ticket(slots: Ticket['slots']): Ticket {
  return { id: 't', waiter: { workflowId: 'w', runId: 'r' }, slots, sinceMs: 0 };
}

test('nothing is set at first: every slot is in use, and a waiter wants what it names', () => {
  const inUse = new InUse();
  assert.equal(inUse.override, undefined);
  assert.ok(inUse.has('7'));
  assert.deepEqual(
    ['0', '1', '2'].map((slot) => inUse.isEligible(ticket(2), slot)),
    [true, true, false],
  );
});

test('a pause and a capacity are set and end by themselves', () => {
  const inUse = new InUse();
  const sized = inUse.set({ slots: 3, capacity: 2, reason: 'small' }, 100);
  assert.deepEqual(sized, { version: 100, slots: 3, capacity: 2, paused: false, reason: 'small' });
  assert.deepEqual(inUse.set({ slots: 3, paused: true }, 100), {
    version: 101,
    slots: 3,
    capacity: 2,
    paused: true,
  });
  assert.ok(!inUse.has('0'));
  assert.deepEqual(inUse.set({ slots: 3, paused: false }, 50), {
    version: 102,
    slots: 3,
    capacity: 2,
    paused: false,
  });
  assert.deepEqual(
    ['0', '1', '2'].map((slot) => inUse.has(slot)),
    [true, true, false],
  );
  assert.deepEqual(inUse.set({ slots: 3, capacity: 3 }, 200), { version: 200, slots: 3, paused: false });
  assert.equal(inUse.override, undefined);
});

test('added slots are for waiters that count slots', () => {
  const inUse = new InUse();
  inUse.set({ slots: 3, capacity: 5 }, 1);
  assert.deepEqual(inUse.names(), ['0', '1', '2', '3', '4']);
  assert.ok(inUse.isEligible(ticket(3), '4') && inUse.has('4') && !inUse.isDeployed('4'));
  assert.ok(!inUse.isEligible(ticket(3), '5'));
  assert.ok(!inUse.isEligible(ticket(['a']), '4'));
});

test('of named slots the first stay in use', () => {
  const inUse = new InUse();
  inUse.set({ slots: ['b', 'a'], capacity: 1 }, 1);
  assert.deepEqual([inUse.has('b'), inUse.has('a'), inUse.isDeployed('a')], [true, false, true]);
});

test('a pause with an end ends by itself, shortens no other, and is shortened by none', () => {
  const inUse = new InUse();
  inUse.set({ slots: 3, capacity: 2 }, 100);
  const paused = inUse.set({ slots: 3, pauseUntilMs: 5_000, reason: '429' }, 200);
  assert.deepEqual(paused, {
    version: 200,
    slots: 3,
    capacity: 2,
    paused: true,
    pausedUntilMs: 5_000,
    reason: '429',
  });
  assert.equal(inUse.endsAtMs, 5_000);
  for (const pauseUntilMs of [4_000, 5_000, 100]) {
    assert.equal(inUse.set({ slots: 3, pauseUntilMs, reason: 'another' }, 300), paused);
  }
  assert.equal(inUse.set({ slots: 3, pauseUntilMs: 6_000 }, 300).pausedUntilMs, 6_000);
  assert.equal(inUse.set({ slots: 3, capacity: 1 }, 400).pausedUntilMs, 6_000, 'a resize leaves it');
  inUse.expire(5_999);
  assert.ok(!inUse.has('0'));
  inUse.expire(6_000);
  assert.deepEqual(inUse.override, { version: 6_000, slots: 3, capacity: 1, paused: false });

  inUse.set({ slots: 3, paused: true }, 7_000);
  assert.equal(inUse.endsAtMs, Number.POSITIVE_INFINITY);
  const byOperator = inUse.set({ slots: 3, pauseUntilMs: 9_000 }, 7_100);
  assert.equal(byOperator.pausedUntilMs, undefined, "an operator's pause has no end");
  inUse.set({ slots: 3, paused: false }, 7_200);
  inUse.set({ slots: 3, pauseUntilMs: 9_000 }, 7_300);
  assert.equal(inUse.set({ slots: 3, paused: true }, 7_400).pausedUntilMs, undefined);
  inUse.set({ slots: 3, paused: false, capacity: 3 }, 7_500);
  assert.equal(inUse.override, undefined);
  assert.equal(inUse.set({ slots: 3, pauseUntilMs: 7_000 }, 7_600).paused, false, 'it is over already');
  assert.equal(inUse.override, undefined);
});

test('a capacity with an end ends by itself: then, what was set before is set again', () => {
  const inUse = new InUse();
  inUse.set({ slots: 8, capacity: 5, reason: 'three are broken' }, 100);
  const temporary = inUse.set({ slots: 8, capacity: 2, capacityUntilMs: 5_000, reason: 'a demo' }, 200);
  assert.deepEqual(temporary, {
    version: 200,
    slots: 8,
    capacity: 2,
    capacityUntilMs: 5_000,
    before: { capacity: 5, reason: 'three are broken' },
    paused: false,
    reason: 'a demo',
  });
  assert.equal(inUse.endsAtMs, 5_000);
  assert.equal(inUse.set({ slots: 8, capacity: 1, capacityUntilMs: 300 }, 300), temporary, 'it is over already');
  const { before, ...longer } = inUse.set({ slots: 8, capacity: 8, capacityUntilMs: 6_000 }, 300);
  assert.deepEqual(before, { capacity: 5, reason: 'three are broken' }, 'what has an end comes back no more');
  assert.deepEqual(longer, { version: 300, slots: 8, capacityUntilMs: 6_000, paused: false });
  assert.ok(inUse.has('7'));
  inUse.expire(5_999);
  assert.ok(inUse.has('7'));
  inUse.expire(6_000);
  assert.deepEqual(inUse.override, {
    version: 6_000,
    slots: 8,
    capacity: 5,
    paused: false,
    reason: 'three are broken',
  });

  inUse.set({ slots: 8, capacity: 1, capacityUntilMs: 9_000 }, 7_000);
  assert.deepEqual(inUse.set({ slots: 8, capacity: 3 }, 7_100), {
    version: 7_100,
    slots: 8,
    capacity: 3,
    paused: false,
  });
  inUse.set({ slots: 8, capacity: 8 }, 7_200);
  inUse.set({ slots: 8, capacity: 1, capacityUntilMs: 9_000 }, 7_300);
  inUse.expire(9_000);
  assert.equal(inUse.override, undefined, 'nothing was set before');
});

test('a pause and a capacity each end at their own time', () => {
  const inUse = new InUse();
  inUse.set({ slots: 3, capacity: 1, capacityUntilMs: 5_000 }, 100);
  inUse.set({ slots: 3, pauseUntilMs: 4_000, reason: '429' }, 200);
  assert.equal(inUse.endsAtMs, 4_000);
  inUse.expire(4_000);
  assert.deepEqual([inUse.override?.paused, inUse.override?.capacity, inUse.endsAtMs], [false, 1, 5_000]);
  inUse.set({ slots: 3, paused: true, reason: 'node drain' }, 4_100);
  inUse.expire(5_000);
  assert.deepEqual(inUse.override, { version: 5_000, slots: 3, paused: true, reason: 'node drain' });
  inUse.set({ slots: 3, paused: false }, 5_100);

  inUse.set({ slots: 3, pauseUntilMs: 9_000 }, 6_000);
  inUse.set({ slots: 3, capacity: 2, capacityUntilMs: 8_000 }, 6_100);
  assert.equal(inUse.endsAtMs, 8_000);
  inUse.expire(9_500); // no worker ran for a while
  assert.equal(inUse.override, undefined);
});

test('what a limits file has set tells its version, until an operator sets something without an end', () => {
  const inUse = new InUse();
  const now = () => inUse.override;
  const file = inUse.set({ slots: 3, capacity: 2, fileVersion: 7, reason: 'broken' }, 100);
  assert.equal(file.fileVersion, 7);
  inUse.set({ slots: 3, pauseUntilMs: 400 }, 200);
  assert.equal(now()?.fileVersion, 7);
  inUse.expire(400);
  assert.deepEqual(now(), { version: 400, slots: 3, capacity: 2, paused: false, fileVersion: 7 });
  inUse.set({ slots: 3, capacity: 1, capacityUntilMs: 600 }, 500);
  assert.deepEqual([now()?.fileVersion, now()?.before?.fileVersion], [undefined, 7]);
  inUse.expire(600);
  assert.deepEqual([now()?.fileVersion, now()?.capacity], [7, 2]);
  inUse.set({ slots: 3, capacity: 1 }, 700);
  assert.equal(now()?.fileVersion, undefined);
});

test("a limits file that leaves another file's resource to its callers is remembered; one that undoes an operator's order is not", () => {
  const inUse = new InUse();
  const now = () => inUse.override;
  inUse.set({ slots: 3, capacity: 2 }, 100);
  inUse.set({ slots: 3, capacity: 3, fileVersion: 7 }, 200);
  assert.equal(now(), undefined);
  inUse.set({ slots: 3, capacity: 2, fileVersion: 6 }, 300);
  inUse.set({ slots: 3, capacity: 3, fileVersion: 7 }, 400);
  assert.deepEqual(now(), { version: 400, slots: 3, paused: false, fileVersion: 7 });
  inUse.set({ slots: 3, capacity: 1, capacityUntilMs: 600 }, 500);
  inUse.expire(600);
  assert.equal(now()?.fileVersion, 7);
  inUse.set({ slots: 3, capacity: 3 }, 700);
  assert.equal(now(), undefined);
});

test('whoever pauses or resumes during a capacity with an end counts as the author afterwards: a limits file with its version', () => {
  const inUse = new InUse();
  const now = () => inUse.override;
  const [v7, v8] = [7, 8].map((fileVersion) => ({ fileVersion, reason: `limits file, version ${fileVersion}` }));
  inUse.set({ slots: 3, capacity: 2, paused: true, ...v7 }, 100);
  inUse.set({ slots: 3, capacity: 1, capacityUntilMs: 500 }, 200);
  inUse.set({ slots: 3, paused: true, ...v8 }, 300);
  assert.deepEqual(now()?.before, { capacity: 2, ...v8 });
  inUse.expire(500);
  assert.deepEqual(now(), { version: 500, slots: 3, capacity: 2, paused: true, ...v8 });

  inUse.set({ slots: 3, capacity: 1, capacityUntilMs: 900 }, 600);
  inUse.set({ slots: 3, paused: false }, 700);
  inUse.expire(900);
  assert.deepEqual(now(), { version: 900, slots: 3, capacity: 2, paused: false });
});

test('a pause that a limits file has set, and an operator has ended during a capacity with an end, leaves nothing', () => {
  const inUse = new InUse();
  inUse.set({ slots: 3, paused: true, fileVersion: 7 }, 100);
  inUse.set({ slots: 3, capacity: 1, capacityUntilMs: 500 }, 200);
  inUse.set({ slots: 3, paused: false }, 300);
  inUse.expire(500);
  assert.equal(inUse.override, undefined);
});

test('a limits file that undoes a pause by hand during a capacity with an end leaves nothing', () => {
  const inUse = new InUse();
  inUse.set({ slots: 3, capacity: 1, capacityUntilMs: 500 }, 100);
  inUse.set({ slots: 3, paused: true }, 200);
  inUse.set({ slots: 3, paused: false, fileVersion: 7 }, 300);
  inUse.expire(500);
  assert.equal(inUse.override, undefined);
});

test('a pause with an end, and its end, leave alone which limits file comes back after a capacity with an end', () => {
  const inUse = new InUse();
  inUse.set({ slots: 3, capacity: 2, fileVersion: 7 }, 100);
  inUse.set({ slots: 3, capacity: 1, capacityUntilMs: 900 }, 200);
  inUse.set({ slots: 3, pauseUntilMs: 500 }, 300);
  inUse.expire(500);
  assert.deepEqual([inUse.override?.paused, inUse.override?.before], [false, { capacity: 2, fileVersion: 7 }]);
  inUse.expire(900);
  assert.deepEqual(inUse.override, { version: 900, slots: 3, capacity: 2, paused: false, fileVersion: 7 });
});

test('a later order that names fewer slots keeps no capacity above them, which the next run would take for malformed', () => {
  const names = ['a', 'b', 'c', 'd', 'e'];
  for (const capacityUntilMs of [undefined, 100]) {
    const inUse = new InUse();
    inUse.set({ slots: names, capacity: 4 }, 1);
    if (capacityUntilMs) inUse.set({ slots: names, capacity: 3, capacityUntilMs }, 2);
    inUse.set({ slots: ['a', 'b'], paused: true }, 3);
    assert.deepEqual(readOverride('r', inUse.override), inUse.override);
    assert.ok(inUse.override?.paused, 'the pause goes on');
    inUse.set({ slots: ['a', 'b'], paused: false }, 4);
    inUse.expire(200);
    assert.equal(inUse.override, undefined, 'as many as are deployed');
  }
});
