import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { test } from 'node:test';
import type { Server } from '../server/server';
import { Closing } from './closing';
import type { Permit } from './permit';

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

test('a permit that is had just as its client is closed goes back, and its caller is told', async () => {
  const tracked: Promise<unknown>[] = [];
  const track = <T>(work: Promise<T>) => {
    tracked.push(work);
    return work;
  };
  const closing = new Closing({ ended: async () => undefined, track } as unknown as Server, 'gpus');
  let givenBack = 0;
  const giveBack = async () => void givenBack++;
  const permit = { standAmong: () => undefined, giveBack } as unknown as Permit;
  assert.equal(closing.handOut(permit), permit);
  assert.deepEqual([givenBack, tracked.length], [0, 0]);
  void closing.close();
  assert.throws(() => closing.handOut(permit), { name: 'SemaphoreClosedError' });
  assert.deepEqual([givenBack, tracked.length], [1, 1], 'and the close waits for it');
});
