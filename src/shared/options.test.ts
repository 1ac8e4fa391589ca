import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { InvalidOptionsError } from './check';
import {
  type AcquireOptions,
  resolveAcquire,
  resolveSemaphore,
  resolveSetAcquire,
  type SemaphoreOptions,
} from './options';
import { longestSetHoldMs } from './run-limits';

const DEFAULTS = { leaseMs: 600_000 };
const SEMAPHORE = resolveSemaphore('pool', { capacity: 3 }, DEFAULTS);
const HOUR_MS = 3_600_000;

test('defaults are filled in once', () => {
  assert.deepEqual(resolveSemaphore('pool', { capacity: 3 }, DEFAULTS), {
    resource: 'pool',
    slots: ['0', '1', '2'],
    compactSlots: 3,
    mark: 3,
    perKey: undefined,
    leaseMs: 600_000,
    renewEveryMs: 200_000,
    maxHoldMs: 24 * HOUR_MS,
    paceMs: undefined,
    unpaced: false,
    taskQueue: 'permits',
    fair: false,
    reentrant: false,
    recheckAfterMs: 30_000,
    before: [],
  });
  assert.deepEqual(resolveAcquire(SEMAPHORE), {
    timeoutMs: Number.POSITIVE_INFINITY,
    maxWaiting: undefined,
    whenFull: undefined,
    key: undefined,
    purpose: undefined,
    priority: undefined,
    outlivesRun: false,
    preempt: false,
    preemptible: undefined,
  });
});

test('before: each entry is the semaphore as it is, but for what the entry names', () => {
  const present = { slots: ['a', 'b'], perKey: 2, fair: true, lease: '1m', pace: { every: '1s' } };
  const { before } = resolveSemaphore(
    'pool',
    { ...present, before: [{ perKey: 1 }, { capacity: 3, pace: undefined, perKey: undefined }] },
    DEFAULTS,
  );
  const { pace: _pace, perKey: _perKey, slots: _slots, ...rest } = present;
  assert.deepEqual(before, [
    resolveSemaphore('pool', { ...present, perKey: 1 }, DEFAULTS),
    resolveSemaphore('pool', { ...rest, capacity: 3 }, DEFAULTS),
  ]);
});

test('before: what no deploy can have had is refused', () => {
  const refused = (before: unknown, message: RegExp) =>
    assert.throws(
      () => resolveSemaphore('pool', { capacity: 3, before } as SemaphoreOptions, DEFAULTS),
      refusal(message),
    );
  refused({ capacity: 2 }, /^before: expected an array such as \[\{ capacity: 3 \}\], got \{"capacity":2\}$/);
  refused([2], /^before\[0\]: expected an object, got 2$/);
  refused([{ capacity: 2 }, { capacity: 0 }], /^before\[1\]: capacity: expected a whole number from 1 to 1000, got 0$/);
  refused([{ capacity: 2, slots: ['a'] }], /^before\[0\]: options: expected exactly one of "capacity" and "slots"/);
  refused([{ lease: '1m' }], /^Unknown option "lease"/);
  refused([{ perKey: 1 }], /^before\[0\]\.perKey can't be combined with a semaphore without perKey/);
});

test('an explicit undefined is a default, not a value', () => {
  const options = { capacity: 1, slots: undefined, lease: undefined, renewEvery: undefined, maxHold: undefined };
  assert.deepEqual(resolveSemaphore('pool', options, DEFAULTS), resolveSemaphore('pool', { capacity: 1 }, DEFAULTS));
});

test('a value that JSON has no text for is refused as any other', () => {
  const circular: Record<string, unknown> = {};
  circular.self = circular;
  for (const value of [circular, [circular], { count: 1n }]) {
    assert.throws(
      () => resolveAcquire(SEMAPHORE, { purpose: value } as never),
      refusal(/^purpose: .* got an (object|Array)$/),
    );
    assert.throws(
      () => resolveAcquire(SEMAPHORE, { timeout: value } as never),
      refusal(/^timeout: .* got an (object|Array)$/),
    );
  }
});

test('maxHold has room for the pace', () => {
  const paced = (options: object) =>
    resolveSemaphore('pool', { capacity: 1, pace: { every: '5m' }, ...options }, DEFAULTS);
  assert.deepEqual([paced({}).paceMs, paced({}).maxHoldMs], [300_000, 24 * HOUR_MS]);
  assert.equal(paced({ pace: { every: '2 days' } }).maxHoldMs, 48 * HOUR_MS + 60_000);
  assert.throws(() => paced({ lease: '1m', maxHold: '5m' }), refusal(/pace\.every: expected .* 1 ms to 4 min/));
});

test('by default no permit is held for longer than its renewals can go on', () => {
  const hold = (options: object) => resolveSemaphore('pool', { capacity: 1, ...options }, DEFAULTS).maxHoldMs / HOUR_MS;
  assert.equal(hold({}), 24);
  assert.equal(Math.floor(hold({ lease: '30s' })), 18);
  assert.equal(Math.floor(hold({ lease: '3s', renewEvery: '500ms' })), 1);
  assert.throws(
    () => hold({ lease: '30s', maxHold: '19 hours' }),
    /maxHold: expected at most 18 h 15 min, the most that renewals every 10 s allow, got "19 hours"/,
  );
  assert.throws(
    () => hold({ lease: '10m', renewEvery: '10ms' }),
    /renewEvery: expected a value so long that the server takes all renewals/,
  );
  assert.equal(hold({ lease: '30s', renewEvery: false, maxHold: '18 hours' }), 18);
});

test('renewEvery: false leaves maxHold as it is, so that the holder can renew by hand', () => {
  const resolved = resolveSemaphore('pool', { capacity: 1, lease: '30s', renewEvery: false }, DEFAULTS);
  assert.equal(resolved.renewEveryMs, false);
  assert.equal(resolved.maxHoldMs, 24 * HOUR_MS);
});

test('a lease longer than a day has room in the default maxHold', () => {
  const resolved = resolveSemaphore('pool', { capacity: 1, lease: '3 days' }, DEFAULTS);
  assert.equal(resolved.maxHoldMs, 72 * HOUR_MS + 60_000);
});

const REFUSED: [SemaphoreOptions, RegExp][] = [
  [{}, /exactly one of "capacity" and "slots", got \{\}/],
  [{ capacity: 1, slots: ['a'] }, /exactly one of/],
  [{ capacity: 0 }, /capacity: expected a whole number from 1 to 1000, got 0/],
  [{ capacity: 1.5 }, /got 1.5/],
  [{ capacity: Number.NaN }, /got NaN/],
  [{ capacity: 1_001 }, /got 1001/],
  [{ capacity: '3' as unknown as number }, /got "3"/],
  [{ slots: [] }, /slots: expected an array of 1 to 1000 slot names, got \[\]/],
  [{ slots: 'ab' as unknown as string[] }, /slots: expected an array/],
  [{ slots: ['a', 'a'] }, /slots: expected distinct slot names, got \["a","a"\]/],
  [{ slots: ['a', ''] }, /slot name: expected a non-empty string, got ""/],
  [{ slots: ['a:b'] }, /slot name: expected a name without ":"/],
  [{ capacity: 1, lease: 0 }, /lease: expected a duration of 100 ms or more.*got 0/],
  [{ capacity: 1, lease: '99ms' }, /lease: expected a duration of 100 ms or more.*got "99ms"/],
  [{ capacity: 1, lease: '30' }, /lease: expected a duration with its unit, such as "30s", got "30"/],
  [{ capacity: 1, lease: 30 }, /lease: expected a duration of 100 ms or more, as a number of milliseconds .*, got 30/],
  [{ capacity: 1, renewEvery: '10' }, /renewEvery: expected a duration with its unit, .*got "10"/],
  [{ capacity: 1, maxHold: ' 5 ' as '5s' }, /maxHold: expected a duration with its unit, .*got " 5 "/],
  [{ capacity: 1, lease: -5 }, /lease: .*got -5/],
  [{ capacity: 1, lease: Number.NaN }, /lease: .*got NaN/],
  [{ capacity: 1, lease: Number.POSITIVE_INFINITY }, /lease: .*got Infinity/],
  [{ capacity: 1, lease: 'soon' as '1s' }, /lease: .*got "soon"/],
  [{ capacity: 1, lease: null as unknown as number }, /lease: .*got null/],
  [{ capacity: 1, lease: '1s', renewEvery: '1s' }, /renewEvery: expected less than the lease \(1 s\), got "1s"/],
  [{ capacity: 1, renewEvery: true as unknown as false }, /renewEvery: .*got true/],
  [{ capacity: 1, lease: '1m', maxHold: '30s' }, /maxHold: expected at least the lease \(1 min\), got "30s"/],
  [{ capacity: 1, taskQueue: '' }, /taskQueue: expected a non-empty string, got ""/],
  [undefined as unknown as SemaphoreOptions, /options: expected an object, got undefined/],
];
for (const [options, message] of REFUSED) {
  test(`refused: ${message.source}`, () => {
    assert.throws(() => resolveSemaphore('pool', options, DEFAULTS), refusal(message));
  });
}

const REFUSED_ACQUIRES: [AcquireOptions, RegExp][] = [
  [{ timeout: '5' }, /timeout: expected a duration with its unit, such as "30s", got "5"/],
  [{ timeout: -1 }, /timeout: expected a duration of 0 ms or more.*got -1/],
  [{ timeout: Number.NaN }, /timeout: .*got NaN/],
  [{ maxWaiting: 0 }, /maxWaiting: expected a whole number from 1, got 0/],
  [{ maxWaiting: 1, whenFull: 'drop' as 'refuse' }, /whenFull: expected "refuse" or "drop-oldest", got "drop"/],
  [{ whenFull: 'drop-oldest' }, /whenFull "drop-oldest": no queue is full without a bound\. Give maxWaiting too/],
  [{ maxWaiting: 1.5 }, /maxWaiting: .*got 1.5/],
  [{ outlivesRun: true, key: 'acme' }, /outlivesRun can't be combined with key/],
  [{ priority: { priorityKey: 2 ** 31 } }, /priorityKey: expected a whole number from 1 to 2147483647, got 2147483648/],
  [{ priority: { priorityKey: -1 } }, /priorityKey: .*got -1/],
  [{ priority: { fairnessKey: 'é'.repeat(33) } }, /fairnessKey: expected a string of at most 64 bytes/],
  [{ priority: { fairnessWeight: 0.0001 } }, /fairnessWeight: expected a number from 0.001 to 1000, got 0.0001/],
  [
    { priority: { fairnessWeight: '5' as unknown as number } },
    /fairnessWeight: expected a number from 0.001 to 1000, got "5"/,
  ],
  [{ purpose: 'x'.repeat(1_001) }, /purpose: expected a string of at most 1000 characters/],
  [{ purpose: 7 as unknown as string }, /purpose: .*got 7/],
];
for (const [options, message] of REFUSED_ACQUIRES) {
  test(`refused: ${message.source}`, () => {
    assert.throws(() => resolveAcquire(SEMAPHORE, options), refusal(message));
  });
}

test('an unknown option is an error that names the nearest known one, whatever its value', () => {
  const unknown = (options: object) => () => resolveAcquire(SEMAPHORE, options);
  assert.throws(unknown({ timeOut: '3s' }), refusal(/^Unknown option "timeOut"\. Did you mean "timeout"\?$/));
  assert.throws(unknown({ tiemout: 0 }), refusal(/Did you mean "timeout"\?/));
  assert.throws(
    unknown({ onSaturated: 'reject' }),
    refusal(/Unknown option "onSaturated"\. Known: timeout, maxWaiting, /),
  );
  assert.ok(resolveAcquire(SEMAPHORE, { timeOut: undefined } as object), 'a spread may leave an absent one');
  assert.throws(
    () => resolveSemaphore('pool', { capcity: 3 } as object, DEFAULTS),
    refusal(/Did you mean "capacity"\?/),
  );
  const preemptible = { grace: '1s', atCheckpoint: true };
  assert.throws(unknown({ preemptible, priority: { priorityKey: 1 } }), refusal(/Did you mean "atCheckpoints"\?/));
});

test('an acquire with a key drops nobody from a line', () => {
  const keyed = resolveSemaphore('pool', { capacity: 3, perKey: 1 }, DEFAULTS);
  const options = { key: 'x', maxWaiting: 1 };
  assert.throws(
    () => resolveAcquire(keyed, { ...options, whenFull: 'drop-oldest' }),
    refusal(/whenFull: "drop-oldest" can't be combined with key/),
  );
  assert.equal(resolveAcquire(keyed, { ...options, whenFull: 'refuse' }).whenFull, undefined, 'as without it');
});

test('the options of a set refuse what belongs to an entry, and pre-emption', () => {
  assert.throws(() => resolveSetAcquire({ key: 'x' } as object), refusal(/key: expected the key in its entry/));
  assert.throws(
    () => resolveSetAcquire({ preempt: true } as object),
    refusal(/preempt can't be combined with several permits/),
  );
  assert.throws(() => resolveSetAcquire({ permits: 2 } as object), refusal(/Unknown option "permits"/));
});

test('any options either resolve to something sound or are refused by name', () => {
  const duration = fc.oneof(fc.integer(), fc.double(), fc.constantFrom('1s', '10 minutes', '2h', 'x', ''));
  const options = fc.record(
    {
      capacity: fc.oneof(fc.integer({ min: -2, max: 1_100 }), fc.double()),
      slots: fc.array(fc.string()),
      lease: duration,
      renewEvery: fc.oneof(duration, fc.constant(false)),
      maxHold: duration,
    },
    { requiredKeys: [] },
  );
  fc.assert(
    fc.property(fc.string(), options, (resource, given) => {
      try {
        const resolved = resolveSemaphore(resource, given as SemaphoreOptions, DEFAULTS);
        assert.ok(resolved.slots.length >= 1 && new Set(resolved.slots).size === resolved.slots.length);
        assert.ok(Number.isInteger(resolved.leaseMs) && resolved.leaseMs >= 1);
        assert.ok(resolved.renewEveryMs === false || resolved.renewEveryMs < resolved.leaseMs);
        assert.ok(resolved.maxHoldMs >= resolved.leaseMs);
      } catch (error) {
        assert.ok(error instanceof InvalidOptionsError, String(error));
      }
    }),
    { numRuns: 1_000 },
  );
});

function refusal(message: RegExp): (error: unknown) => boolean {
  return (error) => error instanceof InvalidOptionsError && message.test(error.message);
}

test('the renewals of a set fill one history: each permit more shortens the longest hold', () => {
  const hours = (...renewals: (number | false)[]) => longestSetHoldMs(renewals) / HOUR_MS;
  assert.equal(hours(10_000).toFixed(1), '12.8'); // as of one permit with a lease of 30 s
  assert.equal(hours(...Array(10).fill(10_000)).toFixed(2), '1.28');
  assert.equal(hours(...Array(100).fill(200_000)).toFixed(2), '2.56');
  assert.equal(hours(10_000, false).toFixed(1), '12.8');
  assert.equal(hours(false), Number.POSITIVE_INFINITY);
});

test('limits that are none, names that are too long, and keys that are none are refused', () => {
  const semaphore = (perKey: unknown, resource = 'r') =>
    resolveSemaphore(resource, { capacity: 3, perKey: perKey as number }, { leaseMs: 1_000 });
  for (const perKey of [0, 1.5, 1_001, '2']) assert.throws(() => semaphore(perKey), /perKey: expected a whole number/);
  assert.throws(
    () => semaphore(1, 'x'.repeat(131)),
    /resource: expected at most 130 bytes of UTF-8, because it has keys/,
  );
  assert.ok(semaphore(1, 'x'.repeat(130)));
  for (const key of ['', 7, null])
    assert.throws(() => resolveAcquire(semaphore(1), { key: key as string }), /key: expected/);
  assert.throws(() => resolveAcquire(semaphore(1), { key: 'cafe\u0301' }), /NFC/);
  assert.throws(() => resolveAcquire(semaphore(1), { key: '\ud800' }), /NFC/);
});
