import assert from 'node:assert/strict';
import { test } from 'node:test';
import { explore } from './explore';
import { type Fault, RECHECK_MS } from './system';

/** Two contend for one slot, and one thing goes wrong at any moment. `test:slow model` explores more. */
const CONTENTION = { slots: 1, acquirers: 2 };
/** And how long it may then take until everyone is served, beside the holds: a probe, an offer's time, or the waiter's next check. */
const FAULTS: [Fault, delays: number, mostMs: number][] = [
  ['kill an acquirer', 0, 1_000],
  ['cancel an acquirer', 0, 1_000],
  ['terminate a permit', 0, 1_000],
  ['terminate the queue', 0, RECHECK_MS],
  ['continue as new', 0, 1_000],
  ['repeat a turn', 0, 1_000],
];

test('one slot, two acquirers, and a message that is late by any timer', async (t) => {
  const calm = await explore({ ...CONTENTION, faults: {}, delays: 0 });
  const { states, longestMs } = await explore({ ...CONTENTION, faults: {}, delays: 1 });
  t.diagnostic(`${states} states, ${calm.states} without the delay`);
  assert.ok(states > calm.states);
  assert.ok(longestMs <= 1_000, `a late message costs a probe: ${longestMs} ms`);

  for (const [fault, delays, mostMs] of FAULTS) {
    await t.test(`"${fault}" once: everyone is served, and nothing is left`, async (t) => {
      const found = await explore({ ...CONTENTION, faults: { [fault]: 1 }, delays });
      t.diagnostic(`${found.states} states, at most ${found.longestMs / 1000} s to serve everyone`);
      assert.ok(found.states > calm.states, 'the fault leads to further states');
      assert.ok(found.longestMs <= mostMs, `${found.longestMs} ms`);
    });
  }
});
