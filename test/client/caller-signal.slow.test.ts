import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { test } from 'node:test';
import { acquireAll, PermitPool, PermitTimeoutError, withPermits } from '../../src/client';
import { clientOf } from '../support/sets';
import { useTemporal } from '../support/temporal';

// A service has one signal for its whole life, and passes it to each of its calls: a call that is over must leave nothing on it.

const temporal = useTemporal({ shared: true });

type Call = (signal: AbortSignal) => Promise<unknown>;

/** Each kind of call that takes a signal, on resources of this test's own. */
function calls(): Record<string, Call> {
  const full = clientOf(temporal, temporal.resource());
  const [one, other] = [clientOf(temporal, temporal.resource()), clientOf(temporal, temporal.resource())];
  const nothing = async () => undefined;
  const late = { timeout: 200 };
  const whileHeld = async (wait: () => Promise<unknown>) => {
    const permit = await full.acquire();
    await assert.rejects(wait(), PermitTimeoutError);
    await permit.release();
  };
  return {
    acquire: async (signal) => await (await one.acquire({ signal })).release(),
    'acquire that times out': (signal) => whileHeld(() => full.acquire({ signal, ...late })),
    tryAcquire: async (signal) => await (await one.tryAcquire({ signal }))?.release(),
    withPermit: (signal) => one.withPermit(nothing, { signal }),
    'yield, which waits again': (signal) => one.withPermit((permit) => permit.yield(nothing), { signal }),
    acquireAll: async (signal) => await (await acquireAll([one, other], { signal })).release(),
    'acquireAll that times out': (signal) => whileHeld(() => acquireAll([one, full], { signal, ...late })),
    withPermits: (signal) => withPermits([one, other], nothing, { signal }),
    'calls of a permit pool': async (signal) => {
      const pool = new PermitPool(one);
      const held = await pool.acquire({ signal });
      await assert.rejects(pool.acquire({ signal, ...late }), PermitTimeoutError);
      assert.equal(await pool.tryAcquire({ signal }), undefined);
      held.release();
      await pool.withPermit(nothing, { signal });
      await pool.close();
    },
    'calls of a keyed permit pool': async (signal) => {
      const pool = new PermitPool(clientOf(temporal, temporal.resource(), { perKey: 1 }));
      const held = await pool.acquire({ key: 'a', signal });
      await assert.rejects(pool.acquire({ key: 'b', signal, ...late }), PermitTimeoutError);
      held.release();
      await pool.close();
    },
  };
}

test('a call that is over leaves no listener on the signal of its caller', async (t) => {
  const any = t.mock.method(AbortSignal, 'any');
  for (const [what, call] of Object.entries(calls())) {
    const { signal } = new AbortController();
    await call(signal);
    assert.equal(getEventListeners(signal, 'abort').length, 0, what);
    // Of a signal that AbortSignal.any makes, some bytes stay with its sources for ever.
    assert.ok(!any.mock.calls.some(({ arguments: [of] }) => [...(of ?? [])].includes(signal)), what);
  }
});
