import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { pause } from './clock';

test('one signal for many acquires, all of which pause while the server is away, is no leak to warn of', async () => {
  const warnings: Error[] = [];
  const onWarning = (warning: Error) => warnings.push(warning);
  process.on('warning', onWarning);
  const { signal } = new AbortController();
  await Promise.all(Array.from({ length: 50 }, () => pause(10, signal)));
  await delay(10); // a warning comes a tick later
  process.off('warning', onWarning);
  assert.deepEqual(warnings, []);
  assert.equal(getEventListeners(signal, 'abort').length, 0);
});
