import assert from 'node:assert/strict';
import { permitId } from '../../src/shared/permit-id';
import { REVOKE } from '../../src/shared/protocol';
import { assertEnds, contract, contractOfAll, finishAll, startHolding } from '../support/drivers';
import { assertQueueTold } from '../support/holders';
import { untilWaiting, useTemporal } from '../support/temporal';

const temporal = useTemporal({ shared: true });

for (const how of ['revoked', 'terminated'] as const) {
  const name = how === 'revoked' ? 'a permit lost to an operator' : 'a permit that somebody terminated';
  contractOfAll(temporal, `${name} stops the function, which says why, and its slot passes on`, async (driver) => {
    const resource = temporal.resource();
    // Nothing but word of the loss could tell the holder, and nothing but its turn the waiter.
    const semaphore = { slots: ['gpu-a'], lease: '1 hour', renewEvery: false, recheckAfter: '1 hour' } as const;
    const { caller, slot, runId } = await startHolding(driver, { resource, semaphore });
    const next = await driver.start({ resource, semaphore });
    await untilWaiting(temporal.client, resource, 1);
    const permit = temporal.client.workflow.getHandle(permitId({ resource, slot }), runId);
    if (how === 'revoked') await permit.signal(REVOKE, { reason: 'node drain' });
    else await permit.terminate();
    await caller.stopped();
    const reason = how === 'revoked' ? { reason: 'node drain' } : {};
    const { details } = await assertEnds(caller, 'PermitLostError', /slot "gpu-a".*(revoked.*node drain|terminated)/);
    assert.deepEqual(details, { resource, slot, runId, how, ...reason });
    await next.holding();
    await finishAll([next]);
    await assertQueueTold(temporal.client, resource, runId); // by the permit, or by its holder
    await driver.assertSafe(resource, 1);
  });
}

for (const [what, bound, how, message] of [
  [
    'renewEvery: false makes the lease a hard bound',
    { lease: 1_000, renewEvery: false },
    'lease-expired',
    /lease ended/,
  ],
  ['maxHold ends a permit that is renewed', { lease: 2_500, renewEvery: 500, maxHold: 2_500 }, 'timed-out', /maxHold/],
] as const) {
  contract(temporal, what, async (driver) => {
    const resource = temporal.resource();
    const { caller, slot, runId } = await startHolding(driver, { resource, semaphore: { capacity: 1, ...bound } });
    const { details } = await assertEnds(caller, 'PermitLostError', message);
    assert.deepEqual(details, { resource, slot, runId, how });
    await driver.assertSafe(resource, 1);
  });
}
