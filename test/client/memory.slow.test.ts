import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { before, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { PermitPool } from '../../src/client';
import { clientOf } from '../support/sets';
import { useTemporal } from '../support/temporal';

// What a long process must not keep of its calls. These tests count what is left, for the size of the heap is noise.

const temporal = useTemporal({ shared: true });
let collect: () => void;

before(() => {
  setFlagsFromString('--expose-gc');
  collect = runInNewContext('gc');
});

/** How many are still in memory. */
async function kept(refs: readonly WeakRef<object>[]): Promise<number> {
  await delay(10); // a WeakRef holds on until the turn in which it was made is over
  collect();
  return refs.filter((ref) => ref.deref()).length;
}

test('3,000 calls of a keyed permit pool leave nothing on the signal that they share, nor in memory', async (t) => {
  const pool = new PermitPool(clientOf(temporal, temporal.resource('keyed'), { capacity: 3, perKey: 1 }));
  const { signal } = new AbortController();
  const any = t.mock.method(AbortSignal, 'any');
  const seen: WeakRef<object>[] = [];
  const call = async (nth: number) => {
    await pool.withPermit(async (permit) => void seen.push(new WeakRef(permit)), { key: `key-${nth % 3}`, signal });
  };
  for (let nth = 0; nth < 3_000; nth += 30)
    await Promise.all(Array.from({ length: 30 }, (_, more) => call(nth + more)));
  assert.equal(seen.length, 3_000);
  assert.equal(getEventListeners(signal, 'abort').length, 0);
  // What AbortSignal.any makes of a signal leaves some bytes on it for ever.
  const composites = any.mock.calls.filter(({ arguments: [signals] }) => [...(signals ?? [])].includes(signal));
  assert.equal(composites.length, 0);
  const left = await kept(seen);
  assert.ok(left < 100, `${left} of 3,000 are kept`);
  await pool.close();
});

test('a permit that was released is not kept for the rest of its lease', async () => {
  const semaphore = clientOf(temporal, temporal.resource(), { capacity: 10, lease: '1 hour' });
  const { signal } = new AbortController();
  const seen: WeakRef<object>[] = [];
  const hold = async () => {
    const permit = await semaphore.acquire({ signal });
    seen.push(new WeakRef(permit));
    await permit.release();
  };
  for (let nth = 0; nth < 100; nth += 10) await Promise.all(Array.from({ length: 10 }, hold));
  assert.equal(getEventListeners(signal, 'abort').length, 0);
  const left = await kept(seen);
  assert.ok(left <= 10, `${left} of 100 are kept`);
});
