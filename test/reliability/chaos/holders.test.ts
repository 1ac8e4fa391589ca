import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Body, ChaosRecord, PermitRun } from './record';
import { at, broken, POOL, pausedPermit } from './sound-record';

/** One holder, from 100 s to 112 s, whose permit ends at 112.1 s; another has the slot from 113 s. */
function long(change: (record: ChaosRecord, body: Body, permit: PermitRun) => void): string[] {
  return broken((record) => {
    const [acquire, body, permit] = [at(record.acquires, 0), at(record.bodies, 0), at(record.permits, 0)];
    Object.assign(acquire, { askedMs: 99_000, settledMs: 100_000 });
    Object.assign(body, { beganMs: 100_000, endedMs: 112_000 });
    Object.assign(permit, { startedMs: 99_900, closedMs: 112_100, outcome: 'released' });
    record.acquires.push({ ...acquire, id: 'next', actor: 'clients-2', askedMs: 112_500, settledMs: 113_000 });
    record.bodies.push({ ...body, acquire: 'next', runId: 'run-4', beganMs: 113_000, endedMs: 114_000 });
    record.permits.push({ ...permit, runId: 'run-4', startedMs: 112_900, closedMs: 114_100 });
    record.acquires.splice(1, 2);
    record.bodies.splice(1, 2);
    record.permits.splice(1, 2);
    record.writes.splice(0);
    change(record, body, permit);
  });
}

const hit = (target: string, atMs: number, healedMs: number) => ({ kind: 'stop-client', target, atMs, healedMs });

test('a long hold breaks nothing', () => {
  assert.deepEqual(
    long(() => undefined),
    [],
  );
});

test('S6: a permit that ends in the midst of its holder’s work', () => {
  const lost = (outcome: string | undefined, change: (record: ChaosRecord) => void = () => undefined) =>
    long((record, _body, permit) => {
      Object.assign(permit, { closedMs: 110_000, outcome });
      change(record);
    });
  for (const outcome of ['lease-expired', 'released', 'revoked', 'preempted', undefined])
    assert.deepEqual(lost(outcome), ['S6'], `${outcome}, and nothing explains it`);
  assert.deepEqual(
    lost('lease-expired', ({ faults }) => void faults.push(hit('clients', 104_000, 105_000))),
    [],
    'its own process had been stopped',
  );
  assert.deepEqual(
    lost('lease-expired', ({ faults }) => void faults.push(hit('clients-2', 104_000, 105_000))),
    ['S6'],
    'another process had been stopped',
  );
  assert.deepEqual(
    lost('lease-expired', ({ faults }) => void faults.push(hit('*', 104_000, 105_000))),
    [],
    'the machine had no time for anybody',
  );
  assert.deepEqual(
    lost('lease-expired', ({ faults }) => void faults.push(hit('clients', 90_000, 101_000))),
    ['S6'],
    'that was more than a lease before',
  );
  const endedLate = (outcome: string) =>
    lost(outcome, ({ faults, permits }) => {
      faults.push(hit('clients', 90_000, 101_000));
      at(permits, 0).rangMs = 104_000;
    });
  assert.deepEqual(endedLate('lease-expired'), [], 'its lease had ended then, and the permit workers were late');
  assert.deepEqual(endedLate('released'), ['S6'], 'it did not end by that');
  assert.deepEqual(
    lost('lease-expired', ({ outages }) => void outages.push({ scope: '*', fromMs: 104_000, toMs: 105_000 })),
    [],
    'the server was down',
  );
  assert.deepEqual(
    lost('lease-expired', ({ faults }) => void faults.push(hit('server', 104_000, 105_000))),
    [],
    'the server was slow',
  );
  const flooded = (slot: string) =>
    lost(
      'lease-expired',
      ({ faults }) => void faults.push({ ...hit(`permit:${POOL}:${slot}`, 104_000, 105_000), kind: 'stranger-flood' }),
    );
  assert.deepEqual(flooded('0'), [], 'a stranger had kept its renewals from the permit');
  assert.deepEqual(flooded('1'), ['S6'], 'a stranger had flooded another permit');
  const paused = { kind: 'pause-workflow', target: `permit:${POOL}:0`, atMs: 104_000, healedMs: 109_900 };
  for (const outcome of ['lease-expired', undefined])
    assert.deepEqual(
      lost(outcome, ({ faults, pauses }) => {
        faults.push(paused);
        pauses.push(pausedPermit('0', 'run-1', 104_000, 109_900));
      }),
      ['S6'],
      'its permit had been paused: the renewals count after that',
    );
  assert.deepEqual(
    lost('lease-expired', ({ faults, bodies }) => void faults.push({ ...paused, target: at(bodies, 0).acquire })),
    [],
    'its own Workflow had been paused',
  );
  const workerDown = (scope: string) => ({ scope, fromMs: 104_000, toMs: 105_000 });
  const down = (...scopes: string[]) =>
    lost('lease-expired', ({ outages }) => void outages.push(...scopes.map(workerDown)));
  assert.deepEqual(down('permits-1', 'permits-2'), []);
  assert.deepEqual(down('permits-1'), ['S6'], 'the other permit worker was up');
  const downWhile = (notCurrent: ChaosRecord['notCurrent'][number]) =>
    lost('lease-expired', (record) => {
      record.outages.push(workerDown('permits-1'));
      record.notCurrent.push(notCurrent);
    });
  assert.deepEqual(downWhile(workerDown('permits-2')), [], 'the other was of a version that was not current');
  assert.deepEqual(downWhile(workerDown('permits-1')), ['S6'], 'the one that was down was');
  assert.deepEqual(
    downWhile({ scope: 'permits-2', fromMs: 101_000, toMs: 103_900 }),
    ['S6'],
    'the other was current by then',
  );
  assert.deepEqual(
    lost('lease-expired', ({ notCurrent }) => void notCurrent.push(workerDown('permits-2'))),
    ['S6'],
    'a deployment takes nothing from anybody',
  );
});

test('S6: a Workflow that was reset may work on under a permit that it has released', () => {
  const again = (resetMs: number) =>
    long(({ faults }, body, permit) => {
      permit.closedMs = 101_000;
      body.beganMs = 103_000;
      body.endedMs = 104_000;
      faults.push({ ...hit(body.acquire, resetMs, resetMs + 10), kind: 'reset-holder' });
    });
  assert.deepEqual(again(102_900), []);
  assert.deepEqual(again(103_100), ['S6'], 'it was reset later');
});

test('S7: a Workflow that is reset long after its permit’s end begins anew, and is told then', () => {
  const again = (endedMs: number) =>
    long(({ acquires, faults }, body, permit) => {
      at(acquires, 0).actor = 'application';
      permit.closedMs = 101_000;
      Object.assign(body, { beganMs: 109_000, endedMs });
      faults.push({ ...hit(body.acquire, 108_900, 108_910), kind: 'reset-holder' });
    });
  assert.deepEqual(again(111_000), []);
  assert.deepEqual(again(123_000), ['S7'], 'and works on all the same');
});

test('S6: what may take a permit explains the loss of that permit, and of no other', () => {
  const revoked = (slot: string, sentMs: number) =>
    long(({ orders }, _body, permit) => {
      Object.assign(permit, { closedMs: 110_000, outcome: 'revoked' });
      orders.push({ kind: 'revoke', resource: POOL, slot, sentMs, answeredMs: sentMs + 100, runId: 'run-1' });
    });
  assert.deepEqual(revoked('0', 109_950), []);
  assert.deepEqual(revoked('1', 109_950), ['S6']);
  const terminated = (target: string, outcome?: string) =>
    long(({ faults }, _body, permit) => {
      Object.assign(permit, { closedMs: 110_000, outcome });
      faults.push({ kind: 'terminate-permit', target, atMs: 109_990 });
    });
  assert.deepEqual(terminated('permit:pool:0'), []);
  assert.deepEqual(terminated('permit:pool:1'), ['S6']);
  assert.deepEqual(terminated('permit:pool:0', 'lease-expired'), ['S6']);
  assert.deepEqual(terminated('one', 'released'), [], 'its holding Workflow was terminated');
  const preempted = long((_record, _body, permit) => {
    Object.assign(permit, { closedMs: 110_000, outcome: 'preempted', askedMs: 109_000 });
  });
  assert.deepEqual(preempted, []);
});

test('S6: a permit that asks its holder to give way, though nobody who outranks it wants that', () => {
  const asks = (askedMs?: number) =>
    long((_record, _body, permit) => Object.assign(permit, { gaveWay: true, askedMs }));
  assert.deepEqual(asks(101_000), []);
  assert.deepEqual(asks(), ['S6']);
});

test('S6: where signals are spoilt, nobody’s loss is judged', () => {
  const lost = long(({ pools }, _body, permit) => {
    Object.assign(permit, { closedMs: 110_000, outcome: 'lease-expired' });
    at(pools, 0).flaky = true;
  });
  assert.deepEqual(lost, []);
});

test('S7: a holder that works on after its permit has ended', () => {
  const worksOn = (toMs: number, change: (record: ChaosRecord) => void = () => undefined) =>
    long((record, body, permit) => {
      Object.assign(permit, { closedMs: 110_000, outcome: 'revoked' });
      body.endedMs = toMs;
      record.orders.push({ kind: 'revoke', resource: POOL, slot: '0', sentMs: 109_950, answeredMs: 110_010 });
      change(record);
    });
  assert.deepEqual(worksOn(112_500), [], 'within its notice');
  assert.deepEqual(worksOn(116_000), ['S7']);
  assert.deepEqual(
    worksOn(116_000, ({ outages }) => void outages.push({ scope: 'clients', fromMs: 110_100, toMs: 115_500 })),
    [],
    'it was stopped',
  );
  assert.deepEqual(
    worksOn(116_000, ({ outages }) => void outages.push({ scope: 'clients-2', fromMs: 110_100, toMs: 115_500 })),
    ['S7'],
    'another process was stopped',
  );
  assert.deepEqual(
    worksOn(115_000, ({ acquires }) => {
      at(acquires, 0).actor = 'application';
    }),
    [],
    'an activity hears by its heartbeats',
  );
  assert.deepEqual(
    worksOn(117_000, ({ acquires }) => {
      at(acquires, 0).actor = 'application';
    }),
    ['S7'],
  );
  const withFault = (kind: string, healedMs: number, actor = 'application') =>
    worksOn(117_000, ({ acquires, faults }) => {
      at(acquires, 0).actor = actor;
      faults.push({ kind, target: actor, atMs: healedMs - 1_000, healedMs });
    });
  assert.deepEqual(withFault('discard-replies', 104_900), [], 'its Workflow Task got lost, and came again at 114.9 s');
  assert.deepEqual(withFault('discard-replies', 98_900), ['S7'], 'long before');
  assert.deepEqual(withFault('stop-application', 104_900), ['S7'], 'it was stopped before, and has lost nothing');
  assert.deepEqual(withFault('discard-replies', 104_900, 'clients'), ['S7'], 'a client hears in no task');
});

test('S7: a client that is cut off stops by its own lease', () => {
  const worksOn = (toMs: number, kind: string, outcome = 'lease-expired') =>
    long((record, body, permit) => {
      Object.assign(permit, { closedMs: 105_000, outcome });
      body.endedMs = toMs;
      record.faults.push({ kind, target: 'clients', atMs: 100_500, healedMs: 111_500 });
      record.orders.push({ kind: 'revoke', resource: POOL, slot: '0', sentMs: 104_950, answeredMs: 105_010 });
    });
  assert.deepEqual(worksOn(107_000, 'freeze-connections'), []);
  assert.deepEqual(worksOn(112_000, 'freeze-connections'), ['S7']);
  assert.deepEqual(
    worksOn(112_000, 'freeze-connections', 'revoked'),
    [],
    'by its lease, which is longer than the permit',
  );
  assert.deepEqual(worksOn(112_000, 'stop-client'), []);
});

test('S6: a holder that gives way has its grace', () => {
  const preempted = (graceMs: number) =>
    long((_record, _body, permit) => {
      Object.assign(permit, { closedMs: 110_000, outcome: 'preempted', askedMs: 109_000, graceMs });
    });
  assert.deepEqual(preempted(900), []);
  assert.deepEqual(preempted(3_000), ['S6']);
});

test('L1: a permit that ends by its lease, and nobody ever worked under it', () => {
  const forgotten = (change: (record: ChaosRecord) => void = () => undefined) =>
    broken((record) => {
      const times = { startedMs: 200_000, closedMs: 206_000 };
      record.permits.push({
        ...at(record.permits, 0),
        ...times,
        runId: 'run-9',
        holder: 'clients',
        outcome: 'lease-expired',
      });
      change(record);
    });
  assert.deepEqual(forgotten(), ['L1']);
  assert.deepEqual(
    forgotten(({ faults }) => void faults.push(hit('clients', 203_000, 204_000))),
    [],
  );
  const killed = (worker: string) =>
    forgotten(({ permits, faults }) => {
      at(permits, permits.length - 1).closedMs = 216_000; // the worker had no time for its lease
      faults.push(hit('clients', 200_100, 200_200), hit(worker, 200_300, 206_000));
    });
  assert.deepEqual(killed('permits-1'), []);
  assert.deepEqual(killed('clients-2'), ['L1']);
  const paused = (runId: string) =>
    forgotten(({ permits, faults, pauses }) => {
      at(permits, permits.length - 1).closedMs = 217_000;
      faults.push(hit('clients', 200_100, 200_200));
      pauses.push(pausedPermit('0', runId, 204_000, 216_900));
    });
  assert.deepEqual(paused('run-9'), [], 'its lease had ended before, and it was paused');
  assert.deepEqual(paused('run-8'), ['L1'], 'another permit of that slot was paused');
  const flooded = (slot: string) =>
    forgotten(
      ({ faults }) => void faults.push({ ...hit(`permit:${POOL}:${slot}`, 203_000, 204_000), kind: 'stranger-flood' }),
    );
  assert.deepEqual(flooded('0'), []);
  assert.deepEqual(flooded('1'), ['L1']);
});

test('L4: a permit that goes on when its holder is done', () => {
  const lasts = (closedMs: number, change: (record: ChaosRecord) => void = () => undefined) =>
    long((record, _body, permit) => {
      permit.closedMs = closedMs;
      record.bodies.splice(1);
      record.permits.splice(1);
      record.acquires.splice(1);
      change(record);
    });
  assert.deepEqual(lasts(116_000), []);
  assert.deepEqual(lasts(120_000), ['L4']);
  assert.deepEqual(
    lasts(120_000, ({ outages }) => void outages.push({ scope: 'permits-1', fromMs: 112_000, toMs: 113_000 })),
    [],
    'a permit worker was down, which may cost a task',
  );
  const paused = (runId: string, toMs: number) =>
    lasts(120_000, ({ pauses }) => void pauses.push(pausedPermit('0', runId, 111_000, toMs)));
  assert.deepEqual(paused('run-1', 119_900), [], 'it was paused: the release takes effect after that');
  assert.deepEqual(paused('run-1', 113_000), ['L4'], 'the pause was over long before');
  assert.deepEqual(paused('run-2', 119_900), ['L4'], 'another permit was paused');
  assert.deepEqual(
    lasts(120_000, ({ bodies }) => {
      at(bodies, 0).died = true;
    }),
    [],
    'it died, and its lease runs out',
  );
  assert.deepEqual(
    lasts(120_000, ({ pools }) => {
      at(pools, 0).paceMs = 20_000;
    }),
    [],
    'its pace',
  );
});

test('L5: a permit pool that goes on under an old permit while somebody else waits', () => {
  const serves = (change: (record: ChaosRecord) => void = () => undefined) =>
    broken((record) => {
      const old = { resource: POOL, slot: '0', runId: 'run-9' };
      const [acquire, permit] = [at(record.acquires, 0), at(record.permits, 0)];
      record.permits.push({ ...permit, ...old, startedMs: 100_000, closedMs: 141_000 });
      for (const [n, beganMs] of [110_000, 140_000].entries()) {
        record.acquires.push({
          ...acquire,
          id: `call-${n}`,
          askedMs: beganMs,
          settledMs: beganMs,
          pooled: true,
          givesWay: true,
        });
        record.bodies.push({ ...old, acquire: `call-${n}`, beganMs, endedMs: beganMs + 500 });
      }
      record.permits.push({ ...permit, slot: '1', runId: 'run-8', startedMs: 99_000, closedMs: 151_000 });
      record.acquires.push({
        ...acquire,
        id: 'waits',
        actor: 'clients-2',
        askedMs: 120_000,
        settledMs: 150_000,
        outcome: 'timeout',
        mayTimeOut: true,
      });
      change(record);
    });
  assert.deepEqual(serves(), ['L5']);
  const waits = (change: object) =>
    serves(({ acquires }) => void Object.assign(acquires.find(({ id }) => id === 'waits') ?? {}, change));
  assert.deepEqual(waits({ askedMs: 130_000 }), [], 'it has not waited for long');
  assert.deepEqual(waits({ settledMs: 139_000 }), [], 'it waited no longer');
  assert.deepEqual(
    serves(({ outages }) => void outages.push({ scope: 'clients-2', fromMs: 121_000, toMs: 139_000 })),
    [],
    'it was down',
  );
  assert.deepEqual(
    serves(({ permits }) => {
      for (const permit of permits) if (permit.runId === 'run-9') permit.startedMs = 130_000;
    }).filter((id) => id === 'L5'),
    [],
    'its permit is new',
  );
});
