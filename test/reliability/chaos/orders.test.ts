import assert from 'node:assert/strict';
import { test } from 'node:test';
import { keyResource } from '@/shared/key-names';
import type { ChaosRecord, Order, PermitRun } from './record';
import { at, broken, POOL, pausedPermit } from './sound-record';

const order = (kind: Order['kind'], sentMs: number, rest: Partial<Order> = {}): Order => ({
  ...{ kind, resource: POOL, sentMs },
  answeredMs: sentMs + 100,
  ...rest,
});
const permit = (slot: string, startedMs: number, closedMs: number, rest: Partial<PermitRun> = {}): PermitRun => ({
  ...{ resource: POOL, slot, runId: `run-${startedMs}`, startedMs, closedMs, drained: false },
  ...rest,
});

test('O1: a slot that is out of use by an answered order is given', () => {
  const given = (
    orders: Order[],
    permits: PermitRun[],
    faults: ChaosRecord['faults'] = [],
    pauses: ChaosRecord['pauses'] = [],
  ) =>
    broken((record) => {
      record.pauses.push(...pauses);
      record.orders.push(...orders);
      record.permits.push(...permits);
      record.faults.push(...faults);
    });
  const late = permit('1', 120_000, 121_000);
  assert.deepEqual(given([order('resize', 100_000, { capacity: 1 })], [late]), ['O1']);
  assert.deepEqual(given([order('pause', 100_000)], [late]), ['O1']);
  assert.deepEqual(given([order('pause', 100_000)], [permit('0', 120_000, 121_000)]), ['O1'], 'no slot is in use');
  assert.deepEqual(given([order('resize', 100_000, { capacity: 1 })], [permit('0', 120_000, 121_000)]), []);
  assert.deepEqual(given([order('pause', 100_000)], [permit('1', 104_000, 105_000)]), [], 'its turn came before');
  assert.deepEqual(given([order('pause', 100_000), order('resume', 119_990)], [late]), [], 'a resume is under way');
  assert.deepEqual(given([order('pause', 100_000), order('resume', 110_000)], [late]), []);
  assert.deepEqual(given([order('pause', 100_000, { answeredMs: undefined })], [late]), [], 'it may not be in effect');
  assert.deepEqual(given([order('pause', 100_000, { untilMs: 110_000 })], [late]), []);
  assert.deepEqual(given([order('pause', 100_000, { untilMs: 130_000 })], [late]), ['O1']);
  assert.deepEqual(
    given([order('pause', 100_000), order('pause', 101_000, { untilMs: 110_000 })], [late]),
    ['O1'],
    'a pause with an end shortens no other',
  );
  assert.deepEqual(given([order('pause', 100_000), order('terminate-queue', 105_000)], [late]), [], 'it is forgotten');
  assert.deepEqual(given([order('pause', 100_000)], [{ ...late, drained: true }]), [], 'the queue’s own claim');
  const raced = [permit('1', 99_000, 119_000), late];
  assert.deepEqual(given([order('pause', 100_000)], raced), [], 'an acquirer was faster than the queue');
  assert.deepEqual(
    given([order('pause', 100_000)], [permit('1', 99_000, 119_000), { ...late, byTurn: true }]),
    ['O1'],
    'the queue itself gave it',
  );
  const freed = { kind: 'terminate-permit', target: 'permit:pool:1', atMs: 119_000 };
  assert.deepEqual(given([order('pause', 100_000)], [late], [freed]), [], 'the queue’s claim was terminated');
  const ofTheServer = { ...freed, kind: 'pause-workflow' };
  assert.deepEqual(given([order('pause', 100_000)], [late], [ofTheServer]), ['O1'], 'the server’s pause frees nothing');
  const pausedQueue = (fromMs: number, resource = POOL) => [
    { workflowId: `permit-queue:${resource}`, runId: 'queue', fromMs, toMs: 119_500 },
  ];
  const longFree = [permit('1', 99_000, 110_000), late];
  const paused = (permits: PermitRun[], pauses: ChaosRecord['pauses']) =>
    given([order('pause', 100_000)], permits, [], pauses);
  assert.deepEqual(paused(longFree, pausedQueue(109_000)), [], 'the queue was paused, and could not claim it');
  assert.deepEqual(paused(longFree, pausedQueue(113_000)), ['O1'], 'it was paused too late for that');
  assert.deepEqual(paused(longFree, pausedQueue(109_000, 'another')), ['O1'], 'another queue was');
  assert.deepEqual(paused([late], pausedQueue(101_000)), [], 'the queue was paused as it was about to claim it');
});

test('O1: a slot of a key that an answered shrink or pause of this key has put out of use is given', () => {
  const resource = keyResource(POOL, 'ann');
  const given = (orders: Order[], perKey?: number) =>
    broken((record) => {
      at(record.pools, 0).perKey = perKey;
      record.permits.push(permit('1', 120_000, 121_000, { resource }));
      record.orders.push(...orders);
    });
  assert.deepEqual(given([order('resize', 100_000, { resource, capacity: 1 })], 2), ['O1']);
  assert.deepEqual(given([order('pause', 100_000, { resource })], 2), ['O1']);
  assert.deepEqual(given([order('resize', 100_000, { resource, capacity: 2 })], 2), []);
  assert.deepEqual(given([order('resize', 100_000, { capacity: 1 })], 2), [], 'of the whole');
});

/** A waiter from 100 s to 150 s, and a permit by which the queue keeps slot 1 out of use all the while. Slot 0 is held. */
function kept(orders: Order[], change: (record: ChaosRecord) => void = () => undefined): string[] {
  return broken((record) => {
    record.acquires.push({
      id: 'waits',
      resource: POOL,
      actor: 'clients',
      askedMs: 100_000,
      settledMs: 150_000,
      outcome: 'granted',
    });
    record.bodies.push({
      acquire: 'waits',
      resource: POOL,
      slot: '1',
      runId: 'run-95',
      beganMs: 150_000,
      endedMs: 151_000,
    });
    record.permits.push(
      permit('1', 90_000, 149_000, { drained: true, runId: 'run-90000' }),
      permit('0', 10_000, 200_000, { runId: 'run-90' }),
      permit('1', 149_900, 151_100, { runId: 'run-95' }),
    );
    record.orders.push(...orders);
    change(record);
  });
}

test('O2 and L2: a slot that is kept out of use against the orders, while somebody waits', () => {
  const pause = order('pause', 89_000);
  assert.deepEqual(kept([pause]), [], 'the order says so');
  assert.deepEqual(kept([pause, order('resume', 99_000)]), ['L2', 'O2']);
  assert.deepEqual(kept([pause, order('resume', 148_000)]), []);
  assert.deepEqual(kept([pause, order('resume', 99_000, { answeredMs: undefined })]), [], 'it may not be in effect');
  assert.deepEqual(kept([order('resize', 89_000, { capacity: 1 }), order('resize', 99_000, { capacity: 2 })]), [
    'L2',
    'O2',
  ]);
  assert.deepEqual(kept([pause, order('terminate-queue', 99_000)]), ['L2', 'O2'], 'nobody keeps it any more');
  const shrunk = order('resize', 89_050, { capacity: 1, answeredMs: 89_080 });
  const terminated = order('terminate-queue', 89_000);
  assert.deepEqual(kept([terminated, shrunk]), [], 'the queue may have been terminated before that');
  assert.deepEqual(kept([shrunk, order('terminate-queue', 89_200)]), ['L2', 'O2'], 'it was terminated after that');
  assert.deepEqual(kept([]), ['L2', 'O2'], 'nobody had ordered it');
  assert.deepEqual(
    kept(
      [pause, order('resume', 99_000)],
      ({ outages }) => void outages.push({ scope: '*', fromMs: 99_000, toMs: 148_000 }),
    ),
    [],
    'the server was down',
  );
  const keptWith = (pause: ChaosRecord['pauses'][number]) =>
    kept([order('pause', 89_000), order('resume', 99_000)], ({ pauses }) => void pauses.push(pause));
  const queue = { workflowId: `permit-queue:${POOL}`, runId: 'queue', fromMs: 99_500, toMs: 140_000 };
  assert.deepEqual(keptWith(queue), ['L2'], 'the queue was paused; L2 allows less than that');
  assert.deepEqual(keptWith(pausedPermit('1', 'run-90000', 99_500, 140_000)), ['L2'], 'what kept it was paused');
  assert.deepEqual(keptWith(pausedPermit('1', 'run-95', 99_500, 140_000)), ['L2', 'O2'], 'another permit was');
  assert.deepEqual(keptWith({ ...queue, workflowId: 'waits' }), [], 'the waiter’s own Workflow was paused');
});

test('O3: a revoke was answered, and the hold goes on', () => {
  const revoked = (closedMs: number) =>
    broken((record) => {
      record.permits.push(permit('1', 100_000, closedMs, { outcome: 'revoked' }));
      record.orders.push(order('revoke', 101_000, { slot: '1', runId: 'run-100000' }));
    });
  assert.deepEqual(revoked(101_050), []);
  assert.deepEqual(revoked(101_500), ['O3']);
});
