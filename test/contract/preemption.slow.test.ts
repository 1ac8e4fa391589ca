import assert from 'node:assert/strict';
import { Operator } from '../../src/operator';
import { finishAll, startHolding } from '../support/drivers';
import { partyContract } from '../support/parties';
import { endQueue, untilWaiting, useTemporal } from '../support/temporal';

// What a holder that may be pre-empted is promised, in a Workflow and in a client alike. The field's example: a lamp shows a
// party's colours, and an alarm takes it.

const temporal = useTemporal({ shared: true });

/** A grace that no test waits for. */
const LOW = { priority: { priorityKey: 4 }, preemptible: { grace: '5 minutes' } } as const;
const HIGH = { priority: { priorityKey: 1 }, preempt: true } as const;
const LEASE = '10 minutes';
const semaphore = { capacity: 1, lease: LEASE } as const;

/** That this ticket is the last of two in line. A waiter that answers late, on a busy machine, loses its turn, so the order of holds tells less. */
async function assertIsLast(resource: string, ticketId: string | undefined): Promise<void> {
  const { client, taskQueue } = temporal;
  const { waiters } = await new Operator(client, resource, { capacity: 1, taskQueue }).inspect({
    recent: 0,
  });
  assert.deepEqual([waiters.length, waiters[1]?.ticketId], [2, ticketId]);
}

partyContract(
  temporal,
  'a holder gives way to a higher priority: its function is told and stops, and it throws PermitLostError',
  async (driver, startParty) => {
    const resource = temporal.resource();
    const party = await startParty({ resource, semaphore, acquire: LOW });
    const { caller: alarm } = await startHolding(driver, { resource, semaphore, acquire: HIGH });
    assert.equal(await party.end(), 'PermitLostError: preempted');
    assert.deepEqual(await party.steps(), ['holds', 'told', 'stopped']);
    await finishAll([alarm]);
    await driver.assertSafe(resource, 1);
  },
);

partyContract(
  temporal,
  "pre-empted, a caller's own loop runs the function anew under another permit",
  async (driver, startParty) => {
    const resource = temporal.resource();
    const party = await startParty({ resource, semaphore, acquire: LOW, onPreempted: 'again' });
    const { runId } = await party.until('holds');
    const { caller: alarm } = await startHolding(driver, { resource, semaphore, acquire: HIGH });
    await untilWaiting(temporal.client, resource, 1);
    await finishAll([alarm]);
    const again = await party.until('holds', 2);
    assert.notEqual(again.runId, runId);
    await party.finish();
    assert.equal(await party.end(), 'finished');
    await driver.assertSafe(resource, 1);
  },
);

partyContract(
  temporal,
  "a caller's own code runs another function under a new permit; a result within the grace counts",
  async (driver, startParty) => {
    const resource = temporal.resource();
    const party = await startParty({ resource, semaphore, acquire: LOW, onPreempted: 'replacement' });
    const { caller: alarm } = await startHolding(driver, { resource, semaphore, acquire: HIGH });
    await finishAll([alarm]);
    assert.equal(await party.end(), 'replaced');
    assert.deepEqual(await party.steps(), ['holds', 'told', 'stopped', 'replaced']);
    const { runId } = await party.until('holds');
    assert.notEqual((await party.until('replaced')).runId, runId);

    const quick = await startParty({ resource, semaphore, acquire: LOW, body: 'finishing', onPreempted: 'again' });
    const { caller: second } = await startHolding(driver, { resource, semaphore, acquire: HIGH });
    assert.equal(await quick.end(), 'returned');
    await finishAll([second]);
    await driver.assertSafe(resource, 1);
  },
);

partyContract(
  temporal,
  'a holder that ignores its grace loses the permit when that is over, also when the queue is terminated meanwhile',
  async (driver, startParty) => {
    const resource = temporal.resource();
    const impatient = { ...semaphore, recheckAfter: '1s' } as const; // its alarm finds that the queue is gone
    const acquire = { ...LOW, preemptible: { grace: '3s' } } as const;
    const party = await startParty({ resource, semaphore: impatient, acquire, body: 'stubborn' });
    const alarm = await driver.start({ resource, semaphore: impatient, acquire: HIGH });
    await party.until('told');
    await endQueue(temporal.client, resource); // nobody is left that could insist
    await alarm.holding();
    await party.finish(); // its work is done only now
    assert.equal(await party.end(), 'PermitLostError: preempted');
    await finishAll([alarm]);
    await driver.assertSafe(resource, 1);
  },
);

partyContract(
  temporal,
  'a waiter that gives up after it has asked: the holder gives way all the same, and has the slot again',
  async (driver, startParty) => {
    const resource = temporal.resource();
    const party = await startParty({ resource, semaphore, acquire: LOW, onPreempted: 'again' });
    const alarm = await driver.start({ resource, semaphore, acquire: HIGH });
    await party.until('told');
    await alarm.cancel();
    assert.equal((await party.until('holds', 2)).slot, '0');
    await party.finish();
    assert.equal((await alarm.outcome()).name, 'cancelled');
    await driver.assertSafe(resource, 1);
  },
);

partyContract(
  temporal,
  'at a checkpoint a holder gives its permit up if it is wanted, and goes on under a new one',
  async (driver, startParty) => {
    const resource = temporal.resource();
    const acquire = { ...LOW, preemptible: { ...LOW.preemptible, atCheckpoints: true } };
    const party = await startParty({ resource, semaphore, acquire, body: 'checkpoints' });
    const { runId = '' } = await party.until('holds');
    const { caller: alarm } = await startHolding(driver, { resource, semaphore, acquire: HIGH });
    await finishAll([alarm]);
    const back = await party.until('back');
    assert.ok((back.runId ?? '') > runId, 'a new token');
    await party.finish();
    assert.equal(await party.end(), 'finished');
    assert.deepEqual(await party.steps(), ['holds', 'back']);
    await driver.assertSafe(resource, 1);
  },
);

partyContract(
  temporal,
  'yield lets others have the slot for as long as the wait takes, and comes back with the old place',
  async (driver, startParty) => {
    const resource = temporal.resource();
    const yielder = await startParty({ resource, semaphore, body: 'yielding' });
    await yielder.until('yielded');
    const { caller: guest } = await startHolding(driver, { resource, semaphore });
    const later = await driver.start({ resource, semaphore, holdMs: 0 });
    const { tickets } = await untilWaiting(temporal.client, resource, 1);
    await yielder.finish();
    await untilWaiting(temporal.client, resource, 2);
    await assertIsLast(resource, tickets[0]?.id);
    await finishAll([guest]);
    assert.equal(await yielder.end(), 'back');
    await later.done();
    await driver.assertSafe(resource, 1);
  },
);
