import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readQueueView } from './queue-view';

const NOTHING = { tickets: [], slots: [], shares: [], override: undefined };
const TICKET = { id: 't', waiter: { workflowId: 'w' }, slots: 1, sinceMs: 1 };
const OVERRIDE = { version: 1, slots: 1, paused: true };

test('what is no object is no answer', () => {
  for (const answer of [undefined, null, 5, 'x', true]) assert.equal(readQueueView('r', answer), undefined);
});

test('what is malformed in an answer is left out', () => {
  for (const answer of [
    {},
    { tickets: 5, slots: 7, shares: 'x', override: [] },
    ...[null, {}, { ...TICKET, id: 5 }, { ...TICKET, waiter: undefined }].map((it) => ({ tickets: [it] })),
    ...[1e9, 0, 1.5, [], [''], 'x'].map((slots) => ({ tickets: [{ ...TICKET, slots }] })),
    ...[null, [], ['0'], ['1', null], [2, { at: 'free' }], ['', { at: 'free' }], ['0', { at: 5 }]].map((it) => ({
      slots: [it],
    })),
    ...[null, [1], ['x', 2, []], [1, 'x', []]].map((it) => ({ shares: [it] })),
    ...[{ paused: 'x' }, { slots: 0 }, { version: 'x' }].map((it) => ({ override: { ...OVERRIDE, ...it } })),
  ]) {
    assert.deepEqual(readQueueView('r', answer), NOTHING, JSON.stringify(answer));
  }
});

test('of a share, the sound part is kept; an override with a malformed field is none, for no queue has taken it', () => {
  const read = (override: object) =>
    readQueueView('r', { override, shares: [[3, 0, [null, ['key'], [5, 6], ['key', 7]]]] }) ?? assert.fail();
  assert.deepEqual(read(OVERRIDE).override, OVERRIDE);
  assert.deepEqual(read(OVERRIDE).shares, [[3, 0, [['key', 7]]]]);
  const temporary = {
    ...OVERRIDE,
    capacity: 2,
    capacityUntilMs: 9,
    before: { capacity: 3, reason: 'why', fileVersion: 7 },
  };
  assert.deepEqual(read(temporary).override, temporary);
  const malformed = [
    { capacity: 1e9 },
    { reason: 5 },
    { pausedUntilMs: 'x' },
    { capacityUntilMs: 'x' },
    { fileVersion: 0 },
  ];
  for (const bad of [...malformed, ...[{ capacity: 1e9 }, { reason: 5 }].map((before) => ({ before }))])
    assert.equal(read({ ...OVERRIDE, ...bad }).override, undefined);
});
