import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { ResourceSlot } from '../operator/inspection';
import type { OverrideState } from '../shared/protocol';
import { type Slots, slotNames, slotsMark } from '../shared/slots';
import { type Comparison, compare } from './compare';
import type { InForce } from './in-force';
import { type Limit, poolOf } from './limit';

const RESOURCE = 'gpus';

interface Seen {
  /** What waiters declare. */
  told?: Slots[];
  /** What the holder of each slot declares. */
  held?: Record<string, Slots | undefined>;
  /** Slots that the queue keeps out of use. */
  drained?: string[];
  override?: Partial<OverrideState>;
  queue?: InForce['queue'];
}

function inForce({ told = [], held = {}, drained = [], override, queue = 'running' }: Seen): InForce {
  const all = { ...held, ...Object.fromEntries(drained.map((slot) => [slot, undefined])) };
  const permits = Object.entries(all).map(([slot, slots]): ResourceSlot => {
    const state = drained.includes(slot) ? 'drained' : 'held';
    const permit = { workflowId: slot, runId: slot, taskQueue: 'permits', holder: {}, since: new Date() };
    const mark = slots === undefined ? {} : { slots: slotsMark(slots) };
    return { resource: RESOURCE, slot, state, permit: { ...permit, ...mark } };
  });
  const set = override && { version: 9, slots: 3, paused: false, ...override };
  return { queue, told, permits, ...(set && { override: set }) };
}

function compared(limit: Partial<Limit>, seen: Seen): Comparison {
  const whole = { resource: RESOURCE, ...limit };
  const limits = { version: 7, limits: [whole] };
  const [comparison] = compare(limits, new Map([[poolOf(whole), inForce(seen)]]));
  return comparison ?? assert.fail();
}

const AB = ['a', 'b'];
const ABC = ['a', 'b', 'c'];
const PAUSED = { paused: { reason: 'migration' } };
/** Three callers hold all that they declare. */
const FULL = { held: { 0: 3, 1: 3, 2: 3 } };

/** What `compare` says: the fields of the change without its reason, or what there is in its place. */
type Expected =
  | { capacity?: number; paused?: boolean; declared: Slots; ifVersion: number }
  | 'in force'
  | 'unused'
  | RegExp;

const CASES: [what: string, limit: Partial<Limit>, seen: Seen, expected: Expected][] = [
  ['as callers declare', { capacity: 3 }, FULL, 'in force'],
  ['fewer than callers declare', { capacity: 2 }, FULL, { capacity: 2, declared: 3, ifVersion: 0 }],
  ['more than callers declare', { capacity: 5 }, FULL, { capacity: 5, declared: 3, ifVersion: 0 }],
  ['as an operator has set', { capacity: 2 }, { ...FULL, override: { capacity: 2 } }, 'in force'],
  [
    'other than an operator has set',
    { capacity: 2 },
    { ...FULL, override: { capacity: 5 } },
    { capacity: 2, declared: 3, ifVersion: 9 },
  ],
  [
    'other than an operator has set until a time',
    { capacity: 2 },
    { ...FULL, override: { capacity: 5, capacityUntilMs: 1, before: { capacity: 3 } } },
    'in force',
  ],
  [
    'other than an older file has set',
    { capacity: 2 },
    { ...FULL, override: { capacity: 5, fileVersion: 6 } },
    { capacity: 2, declared: 3, ifVersion: 9 },
  ],
  [
    'other than a newer file has set',
    { capacity: 2 },
    { ...FULL, override: { capacity: 5, fileVersion: 8 } },
    /^version 8 of a limits file has set something else, which stays: raise the version of this file, which is 7$/,
  ],
  [
    'other than a newer file has left to callers',
    { capacity: 2 },
    { ...FULL, override: { fileVersion: 8 } },
    /^version 8 of a limits file/,
  ],
  [
    'other than another file of this version has set',
    { capacity: 2 },
    { ...FULL, override: { capacity: 5, fileVersion: 7 } },
    /^a limits file of the same version has set/,
  ],
  [
    'no pause, where a newer file has set one and an operator has set a capacity until a time',
    { paused: false },
    { ...FULL, override: { paused: true, capacity: 1, capacityUntilMs: 1, before: { fileVersion: 8 } } },
    /^version 8 of a limits file/,
  ],
  [
    'a pause that a newer file has not set, where an operator has set a capacity until a time',
    PAUSED,
    { ...FULL, override: { capacity: 1, capacityUntilMs: 1, before: { capacity: 2, fileVersion: 8 } } },
    /^version 8 of a limits file/,
  ],
  [
    'a pause that an older file has not set, where an operator has set a capacity until a time',
    PAUSED,
    { ...FULL, override: { capacity: 1, capacityUntilMs: 1, before: { capacity: 2, fileVersion: 6 } } },
    { paused: true, declared: 3, ifVersion: 9 },
  ],
  ['as a newer file has set', { capacity: 2 }, { ...FULL, override: { capacity: 2, fileVersion: 8 } }, 'in force'],
  [
    'callers declare more than when this file set it',
    { capacity: 2 },
    { told: [5], override: { capacity: 2, fileVersion: 7 } },
    { capacity: 2, declared: 5, ifVersion: 9 },
  ],
  [
    'back to what callers declare',
    { capacity: 3 },
    { ...FULL, override: { capacity: 5 } },
    { capacity: 3, declared: 3, ifVersion: 9 },
  ],
  ['waiters tell as holders do', { capacity: 2 }, { told: [4] }, { capacity: 2, declared: 4, ifVersion: 0 }],
  [
    'of two opinions, the greater counts',
    { capacity: 2 },
    { told: [2], held: { 0: 3 } },
    { capacity: 2, declared: 3, ifVersion: 0 },
  ],
  [
    'some callers count slots and others name them, and the file says who is right',
    { capacity: 2, declared: 3 },
    { told: [ABC.concat('d'), 3] },
    { capacity: 2, declared: 3, ifVersion: 0 },
  ],
  [
    'some callers name slots and others count them, and the file says who is right',
    { slots: ['a'] },
    { told: [5, ABC] },
    { capacity: 1, declared: ABC, ifVersion: 0 },
  ],
  ['nobody uses it', { capacity: 2 }, { queue: 'none' }, 'unused'],
  [
    'nobody uses it, and the file says what callers declare',
    { capacity: 2, declared: 4 },
    { queue: 'none' },
    { capacity: 2, declared: 4, ifVersion: 0 },
  ],
  ['nobody uses it, and callers declare as many', { capacity: 4, declared: 4 }, { queue: 'none' }, 'in force'],
  ['nobody uses it, and the override stands', { capacity: 2 }, { override: { capacity: 2 } }, 'in force'],
  [
    'callers count, and not what the file says of them',
    { capacity: 2, declared: 2 },
    FULL,
    { capacity: 2, declared: 3, ifVersion: 0 },
  ],
  // Callers that declare 5 take slots 3 and 4 by themselves, which an override of 3 slots does not keep.
  [
    'callers declare more than when the override was set',
    { capacity: 2 },
    { told: [5], override: { capacity: 2 } },
    { capacity: 2, declared: 5, ifVersion: 9 },
  ],
  [
    'callers declare more, but all of these are in use',
    { capacity: 6 },
    { told: [5], override: { capacity: 6 } },
    'in force',
  ],
  [
    'callers declare fewer than when the override was set',
    { capacity: 2 },
    { told: [1], override: { capacity: 2 } },
    'in force',
  ],
  ['a pause that is not there', PAUSED, FULL, { paused: true, declared: 3, ifVersion: 0 }],
  ['a pause that is there', PAUSED, { ...FULL, override: { paused: true } }, 'in force'],
  [
    'a pause that will end',
    PAUSED,
    { ...FULL, override: { paused: true, pausedUntilMs: 1 } },
    { paused: true, declared: 3, ifVersion: 9 },
  ],
  [
    'a pause of too few',
    PAUSED,
    { told: [5], override: { paused: true } },
    { paused: true, declared: 5, ifVersion: 9 },
  ],
  ['a pause of what nobody uses, of unknown size', PAUSED, { queue: 'none' }, 'unused'],
  [
    'a pause of what nobody uses',
    { ...PAUSED, capacity: 2 },
    { queue: 'none' },
    { capacity: 2, paused: true, declared: 2, ifVersion: 0 },
  ],
  [
    'no pause, where there is one',
    { paused: false },
    { ...FULL, override: { paused: true } },
    { paused: false, declared: 3, ifVersion: 9 },
  ],
  [
    'no pause, where there is one that will end',
    { paused: false },
    { ...FULL, override: { paused: true, pausedUntilMs: 1 } },
    'in force',
  ],
  ['no pause, where there is none', { paused: false }, FULL, 'in force'],
  ['a capacity says nothing of a pause', { capacity: 3 }, { ...FULL, override: { paused: true } }, 'in force'],
  [
    'a capacity and a pause are one order',
    { ...PAUSED, capacity: 2 },
    FULL,
    { capacity: 2, paused: true, declared: 3, ifVersion: 0 },
  ],
  ['all named slots', { slots: ABC }, { told: [ABC] }, 'in force'],
  ['all named slots, by a permit that has only their hash', { slots: ABC }, { held: { a: ABC } }, 'in force'],
  ['the first named slots', { slots: AB }, { told: [ABC] }, { capacity: 2, declared: ABC, ifVersion: 0 }],
  ['as many named slots', { capacity: 2 }, { told: [ABC] }, { capacity: 2, declared: ABC, ifVersion: 0 }],
  [
    'named slots whose names only the file tells',
    { slots: AB, declared: ABC },
    { held: { a: ABC } },
    { capacity: 2, declared: ABC, ifVersion: 0 },
  ],
  [
    'named slots whose names nobody tells',
    { capacity: 2 },
    { held: { a: ABC } },
    /declare 3 named slots, and neither a waiter nor "declared"/,
  ],
  ['named slots in force whose names nobody tells', { capacity: 3 }, { held: { a: ABC } }, 'in force'],
  [
    'named slots that callers do not declare first',
    { slots: ['b'] },
    { told: [ABC] },
    /the slots a, b, c: "slots" can only be the first/,
  ],
  ['named slots, where callers count', { slots: AB }, { told: [3] }, /a capacity of 3: "slots" can only be the first/],
  ['named slots that grow', { capacity: 4 }, { told: [ABC] }, /named slots can't grow/],
  ['a queue that does not answer', { capacity: 3 }, { ...FULL, queue: 'silent' }, /no worker answers for its queue/],
  ['a key of its own', { key: 'acme', capacity: 5 }, { told: [2] }, { capacity: 5, declared: 2, ifVersion: 0 }],
];

describe('a limit beside what is in force', () => {
  for (const [what, limit, seen, expected] of CASES) {
    test(what, () => {
      const { change, unused, problem } = compared(limit, seen);
      if (expected instanceof RegExp) {
        assert.match(problem?.message ?? '', expected);
        assert.equal(change, undefined);
        return;
      }
      const { reason, fileVersion, ...rest } = change ?? {};
      assert.deepEqual(change ? rest : unused ? 'unused' : 'in force', expected);
      if (change) assert.equal(fileVersion, 7);
      if (change)
        assert.match(reason ?? '', limit.paused ? /^limits file, version 7: migration$/ : /^limits file, version 7$/);
    });
  }
});

test('a change that was made leaves nothing to change', () => {
  for (const [what, limit, seen] of CASES) {
    const { change } = compared(limit, seen);
    if (!change) continue;
    const { declared: slots, capacity = seen.override?.capacity, paused = seen.override?.paused ?? false } = change;
    const isSet = paused || (capacity !== undefined && capacity !== slotNames(slots).length);
    const override = isSet ? { version: 10, slots, paused, ...(capacity !== undefined && { capacity }) } : undefined;
    assert.equal(compared(limit, { ...seen, queue: 'running', override }).change, undefined, what);
  }
});

test('who is above: those whose slots go out of use, also once the limit is in force; not for a pause of which the file says nothing', () => {
  const above = (limit: Partial<Limit>, seen: Seen) => compared(limit, seen).above.map(({ slot }) => slot);
  assert.deepEqual(above({ capacity: 1 }, FULL), ['1', '2']);
  assert.deepEqual(above({ capacity: 1 }, { ...FULL, override: { capacity: 1 } }), ['1', '2']);
  assert.deepEqual(above({ capacity: 5 }, FULL), []);
  assert.deepEqual(above(PAUSED, FULL), ['0', '1', '2']);
  assert.deepEqual(above({ capacity: 3 }, { ...FULL, override: { paused: true } }), []);
  assert.deepEqual(above({ slots: AB }, { told: [ABC], held: { a: ABC, c: ABC } }), ['c']);
  // The permit by which the queue keeps a slot out of use is nobody's hold.
  const override = { capacity: 1 };
  assert.deepEqual(above({ capacity: 1 }, { held: { 0: 3, 1: 3 }, drained: ['2'], override }), ['1']);
});

test("a stranger's permit that names a billion slots is no opinion", () => {
  const permit = {
    workflowId: 'x',
    runId: 'x',
    taskQueue: 'permits',
    holder: {},
    since: new Date(),
    slots: 1_000_000_000,
  };
  const now = { ...inForce(FULL), permits: [{ resource: RESOURCE, slot: '0', state: 'held' as const, permit }] };
  const [comparison] = compare(
    { version: 1, limits: [{ resource: RESOURCE, capacity: 2 }] },
    new Map([[RESOURCE, now]]),
  );
  assert.equal(comparison?.unused, true);
});
