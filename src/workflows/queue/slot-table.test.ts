import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { QueueView } from '../../shared/protocol';
import { type Answer, SlotTable } from './slot-table';

/** What goes over the wire drops what is absent. */
const plain = (slots: QueueView['slots']) => JSON.parse(JSON.stringify(slots)) as QueueView['slots'];

const HOLDER = { runId: 'r', graceMs: 1_000, priorityKey: 4 };

test('what the queue knows nothing of is unknown, and takes no room', () => {
  const table = new SlotTable();
  assert.deepEqual(table.get('0'), { at: 'unknown' });
  table.free('0');
  assert.equal(table.size, 1);
  table.forget('0');
  assert.deepEqual([table.get('0'), table.size, table.view()], [{ at: 'unknown' }, 0, []]);
});

test('what is known of a holder outlasts a probe, and goes with the permit', () => {
  const table = new SlotTable();
  const answer: Answer = { is: 'known', holder: HOLDER, isOld: false };
  table.hold('0', { sinceMs: 1, probeAtMs: 2 }, answer);
  table.probe('0', { asks: true });
  assert.deepEqual(plain(table.view()), [
    ['0', { at: 'probing', heldSinceMs: 1, asks: true, answersByMs: 0, holder: HOLDER }],
  ]);
  table.free('0');
  table.probe('0', {});
  assert.deepEqual(plain(table.view()), [['0', { at: 'probing' }]]);
});

test('each answer reads on the wire as it always did, and the next run knows as much', () => {
  const held = { at: 'held', sinceMs: 1, probeAtMs: 2 } as const;
  const slots: QueueView['slots'] = [
    ['not asked', held],
    ['due', { ...held, answersByMs: 77 }],
    ['none', { ...held, answersByMs: 0 }],
    ['known', { ...held, answersByMs: 0, holder: HOLDER }],
    ['gives way', { ...held, answersByMs: 0, holder: { ...HOLDER, untilMs: 99 } }],
    ['old', { ...held, holder: HOLDER }],
    ['claimed?', { at: 'offered', ticketId: 't', untilMs: 5, answersByMs: 77 }],
    ['unseen', { at: 'unseen' }],
    ['kept out', { at: 'drained', runId: 'r', renewAtMs: 3 }],
  ];
  assert.deepEqual(plain(new SlotTable(slots).view()), slots);
  const known = (answersByMs?: number) => new SlotTable([['0', { ...held, answersByMs, holder: HOLDER }]]).get('0');
  assert.deepEqual(known(77), known(0), 'a run of an earlier version says until when the answer was awaited');
  assert.notDeepEqual(known(undefined), known(0));
});

test('the slots are looked at in the order in which they became known, also those that come meanwhile', () => {
  const table = new SlotTable();
  for (const slot of ['a', 'b', 'c']) table.free(slot);
  const seen: string[] = [];
  for (const [slot] of table) {
    seen.push(slot);
    if (slot === 'a') table.offer('c', 't', 5);
    if (slot === 'b') table.forget('b');
    if (slot === 'c') table.probe('d', {});
  }
  assert.deepEqual(seen, ['a', 'b', 'c', 'd']);
  assert.deepEqual(
    [...table.in('offered', 'probing')].map(([slot]) => slot),
    ['c', 'd'],
  );
});

test('a list of slots to look at takes the place of the list before, and of no slot that is known', () => {
  const table = new SlotTable();
  table.free('0');
  table.lookAt(['0', '1', '2']);
  table.lookAt(['2', '3']);
  assert.deepEqual(plain(table.view()), [
    ['0', { at: 'free' }],
    ['2', { at: 'unseen' }],
    ['3', { at: 'unseen' }],
  ]);
});
