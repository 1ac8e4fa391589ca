import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { test } from 'node:test';
import type { Server } from '../server/server';
import { Closing } from './closing';

test('a wait that is over leaves nothing on the signal of its caller, and neither the caller nor the close reaches it', async () => {
  const closing = new Closing({ ended: async () => undefined } as Server, 'gpus');
  const caller = new AbortController();
  const seen: AbortSignal[] = [];
  await closing.wait(caller.signal, async (signal) => void seen.push(signal));
  const failed = closing.wait(caller.signal, async (signal) => {
    seen.push(signal);
    throw new Error('refused');
  });
  await assert.rejects(failed, /refused/);
  assert.equal(getEventListeners(caller.signal, 'abort').length, 0);
  caller.abort();
  await closing.close();
  assert.deepEqual(
    seen.map(({ aborted }) => aborted),
    [false, false],
  );
});

test('a wait ends with the close and with its caller, each by its own reason', async () => {
  for (const end of ['close', 'caller'] as const) {
    const closing = new Closing({ ended: async () => undefined } as Server, 'gpus');
    const caller = new AbortController();
    const wait = closing.wait(
      caller.signal,
      (signal) => new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
    );
    if (end === 'close') void closing.close();
    else caller.abort(new Error('enough'));
    await assert.rejects(wait, end === 'close' ? { name: 'SemaphoreClosedError' } : /enough/);
  }
});
