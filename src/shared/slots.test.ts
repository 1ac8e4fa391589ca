import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import { readSlotsMark, slotsMark } from './slots';

test('a capacity stands for itself; names for their number and a hash, whatever their order', () => {
  const hash = createHash('sha256').update('gpu-a\ngpu-b').digest('hex').slice(0, 16);
  assert.equal(slotsMark(3), 3);
  assert.equal(slotsMark(['gpu-b', 'gpu-a']), `2#${hash}`);
  assert.equal(slotsMark(['gpu-a', 'gpu-b']), `2#${hash}`);
  assert.notEqual(slotsMark(['gpu-a', 'gpu-c']), `2#${hash}`);
  assert.equal(slotsMark(['1', '0', '2']), 3, 'the same slots');
  assert.equal(typeof slotsMark(['1', '2']), 'string');
});

test('only what a claimer may write is read', () => {
  for (const slots of [1, 1_000, ['a'], Array.from({ length: 1_000 }, (_, n) => `gpu-${n}`)]) {
    assert.equal(readSlotsMark(slotsMark(slots)), slotsMark(slots));
  }
  for (const value of [0, -1, 1.5, Number.NaN, '', '3', '0#0123456789abcdef', '2#x', ['a'], null, undefined, {}]) {
    assert.equal(readSlotsMark(value), undefined, String(value));
  }
});
