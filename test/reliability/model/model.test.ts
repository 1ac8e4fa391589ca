import assert from 'node:assert/strict';
import { test } from 'node:test';
import { explore } from './explore';
import { type Fault, RECHECK_MS } from './system';

/** Two contend for one slot, and one thing goes wrong at any moment. `test:slow model` explores more, with late messages. */
const CONTENTION = { slots: 1, acquirers: 2 };
/** And how long it may then take until everyone is served, beside the holds: a probe, an offer's time, or the waiter's next check. */
const FAULTS: [Fault, mostMs: number][] = [
  ['kill an acquirer', 1_000],
  ['cancel an acquirer', 1_000],
  ['terminate a permit', 0],
  ['terminate the queue', RECHECK_MS],
  ['continue as new', 1_000],
  ['repeat a turn', 1_000],
];

test('one slot, two acquirers', async (t) => {
  const calm = await explore({ ...CONTENTION, faults: {}, delays: 0 });
  for (const [fault, mostMs] of FAULTS) {
    await t.test(`"${fault}" once: everyone is served, and nothing is left`, async (t) => {
      const found = await explore({ ...CONTENTION, faults: { [fault]: 1 }, delays: 0 });
      t.diagnostic(`${found.states} states, at most ${found.longestMs / 1000} s to serve everyone`);
      assert.ok(found.states > calm.states, 'the fault leads to further states');
      assert.ok(found.longestMs <= mostMs, `${found.longestMs} ms`);
    });
  }
});
