import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { test } from 'node:test';
import { onAbort } from './on-abort';

test('thousands of calls that share a signal put one listener on it, and none when they are over', () => {
  const caller = new AbortController();
  const { signal } = caller;
  const heard: number[] = [];
  const stops = Array.from({ length: 10_000 }, (_, nth) => onAbort(signal, () => heard.push(nth)));
  assert.equal(getEventListeners(signal, 'abort').length, 1);
  for (const stop of stops.slice(2)) stop();
  assert.equal(getEventListeners(signal, 'abort').length, 1);
  for (const stop of stops.slice(0, 1)) stop();
  caller.abort();
  assert.deepEqual(heard, [1]);
  assert.equal(getEventListeners(signal, 'abort').length, 0);
  onAbort(signal, () => heard.push(-1));
  assert.deepEqual(heard, [1, -1], 'a signal that has aborted tells at once');
});

test('a signal that all calls have left is heard again by the next', () => {
  const caller = new AbortController();
  onAbort(caller.signal, () => assert.fail('it has stopped'))();
  assert.equal(getEventListeners(caller.signal, 'abort').length, 0);
  let heard = 0;
  const stop = onAbort(caller.signal, () => heard++);
  caller.abort();
  caller.abort();
  stop();
  assert.equal(heard, 1);
});
