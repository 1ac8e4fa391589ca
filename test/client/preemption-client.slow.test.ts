import assert from 'node:assert/strict';
import { AsyncLocalStorage } from 'node:async_hooks';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { Client, type WorkflowClientInterceptor, WorkflowUpdateRPCTimeoutOrCancelledError } from '@temporalio/client';
import { acquireAll, type Permit, PermitLostError, SemaphoreClient } from '../../src/client';
import { currentFencingToken } from '../../src/fencing';
import { FencingToken } from '../../src/shared/fencing-token';
import { permitId, queueId } from '../../src/shared/permit-id';
import { QUEUE_VIEW, type QueueView } from '../../src/shared/protocol';
import { ClientProcess } from '../support/client-process';
import { startHolding } from '../support/holders';
import { operatorOf } from '../support/operators';
import { clientOf } from '../support/sets';
import { eventually, until, untilWaiting, useTemporal } from '../support/temporal';
import * as workflows from '../support/workflows';

// What only clients have of pre-emption. What holders of both sides are promised is in contract/preemption.slow.test.ts.

const temporal = useTemporal({ shared: true });

/** A grace that no test waits for. */
const LOW = { priority: { priorityKey: 4 }, preemptible: { grace: '30s' } } as const;
const HIGH = { priority: { priorityKey: 1 }, preempt: true } as const;

function isPreempted(error: unknown): boolean {
  return error instanceof PermitLostError && error.how === 'preempted';
}

/** Runs code as somebody else: a caller that asks for a permit that it holds itself is refused. */
const elsewhere = AsyncLocalStorage.snapshot();

async function aborted({ signal }: Pick<Permit, 'signal'>): Promise<unknown> {
  if (!signal.aborted) await new Promise((resolve) => signal.addEventListener('abort', resolve));
  return signal.reason;
}

test('the signal of a client that gives way aborts; it is told in its grace, while its permit still runs', async () => {
  const resource = temporal.resource();
  const party = clientOf(temporal, resource);
  const alarms: Promise<Permit>[] = [];
  const rejected = await party
    .withPermit(async (permit) => {
      alarms.push(elsewhere(() => party.acquire(HIGH)));
      const reason = await aborted(permit);
      assert.ok(reason instanceof PermitLostError, String(reason));
      assert.deepEqual([reason.how, reason.runId, await permit.preempted], ['preempted', permit.runId, reason]);
      await permit.renew(); // it holds on until it gives the permit back
      const { status } = await temporal.client.workflow.getHandle(permit.workflowId, permit.runId).describe();
      assert.equal(status.name, 'RUNNING');
      permit.signal.throwIfAborted();
    }, LOW)
    .catch((error: unknown) => error);
  assert.ok(isPreempted(rejected), String(rejected));
  await (await alarms[0])?.release();
});

test('a client that was pre-empted, and comes again at once, lets its pre-emptor go first', async () => {
  const party = clientOf(temporal, temporal.resource());
  const isOver = new AbortController();
  let holds = 0;
  const hold = async ({ signal }: Permit) => {
    holds++;
    await aborted({ signal: AbortSignal.any([signal, isOver.signal]) });
    signal.throwIfAborted();
  };
  const comeAgain = async () => {
    while (!isOver.signal.aborted && holds < 10) {
      await party.withPermit(hold, LOW).catch((error: unknown) => assert.ok(isPreempted(error), String(error)));
    }
  };
  const looping = comeAgain();
  for (let alarms = 1; alarms <= 5; alarms++) {
    await until(() => holds === alarms);
    const alarm = await elsewhere(() => party.acquire(HIGH));
    const had = holds;
    await alarm.release();
    assert.equal(had, alarms, 'it had the slot again before its pre-emptor');
  }
  isOver.abort();
  await looping;
});

test('a client that is revoked in its grace is told that', async () => {
  const resource = temporal.resource();
  const lamp = clientOf(temporal, resource);
  const party = await lamp.acquire(LOW);
  const alarm = lamp.acquire(HIGH);
  await party.preempted;
  await operatorOf(lamp).revoke('0', { reason: 'cleaning' });
  await assert.rejects(party.renew(), (error) => error instanceof PermitLostError && error.how === 'revoked');
  await (await alarm).release();
});

test('a client whose grace is over can neither renew nor pass a checkpoint, and its result does not count', async () => {
  const resource = temporal.resource();
  const lamp = clientOf(temporal, resource);
  const stubborn = lamp.withPermit(
    async (permit) => {
      const alarm = await elsewhere(() => lamp.acquire(HIGH)); // somebody else has the slot, and this one works on
      await assert.rejects(permit.renew(), isPreempted);
      await assert.rejects(permit.checkpoint(), isPreempted);
      await alarm.release();
      return 'too late';
    },
    { ...LOW, preemptible: { grace: '1s' } },
  );
  await assert.rejects(stubborn, isPreempted);
});

test('polls that end by themselves, as each does after a while, make no holder deaf', async () => {
  let ended = 0;
  const startUpdate: NonNullable<WorkflowClientInterceptor['startUpdate']> = async (input, next) => {
    const cause = Object.assign(new Error('4 DEADLINE_EXCEEDED'), { code: 4, details: '', metadata: {} });
    if (++ended <= 100) throw new WorkflowUpdateRPCTimeoutOrCancelledError('over', { cause });
    return await next(input);
  };
  const { connection } = temporal.client;
  const client = new Client({ connection, interceptors: { workflow: [{ startUpdate }] } });
  const resource = temporal.resource();
  const { taskQueue } = temporal;
  const party = await new SemaphoreClient(client, resource, { capacity: 1, taskQueue }).acquire(LOW);
  const alarm = clientOf(temporal, resource).acquire(HIGH);
  await party.preempted;
  await party.renew(); // a hundred pauses, each longer than the last, would outlast its grace
  await party.release();
  await (await alarm).release();
});

test('a client that is killed in its grace keeps the slot until that is over, not until its lease ends', async () => {
  const resource = temporal.resource();
  const lamp = clientOf(temporal, resource);
  const party = new ClientProcess({
    address: temporal.env.address,
    resource,
    semaphore: { capacity: 1, taskQueue: temporal.taskQueue, lease: '10 minutes' },
    acquire: { ...LOW, preemptible: { grace: '3s' } },
  });
  await party.until('acquired');
  party.signal('SIGSTOP'); // it can't give the permit back
  const alarm = lamp.acquire({ ...HIGH, timeout: '1 minute' });
  await until(async () => (await operatorOf(lamp).inspect()).slots[0]?.permit?.preemptedUntil);
  await party.kill();
  await (await alarm).release();
  const { runId } = await party.until('acquired');
  const ended = temporal.client.workflow.getHandle(permitId({ resource, slot: '0' }), runId);
  assert.equal(await ended.result(), 'preempted');
});

test('at a checkpoint a client goes on under a new permit, with the new token, and its signal has not aborted before', async () => {
  const resource = temporal.resource();
  const lamp = clientOf(temporal, resource);
  const tokens = await lamp.withPermit(
    async (permit) => {
      const { runId } = permit;
      const before = currentFencingToken().toString();
      assert.equal(await permit.checkpoint(), permit, 'nobody asks');
      assert.equal(permit.runId, runId);
      const alarm = elsewhere(() => lamp.acquire(HIGH));
      await permit.preempted;
      assert.equal(permit.signal.aborted, false);
      void alarm.then((other) => other.release());
      assert.equal(await permit.checkpoint(), permit);
      assert.notEqual(permit.runId, runId);
      assert.equal(permit.signal.aborted, false, 'it was given up, not lost');
      assert.equal(currentFencingToken().toString(), FencingToken.from(permit).toString());
      return [before, currentFencingToken().toString()];
    },
    { ...LOW, preemptible: { grace: '30s', atCheckpoints: true } },
  );
  assert.notEqual(tokens[0], tokens[1]);
});

test('yield gives the slot to others, and comes back; a release ends what it holds then', async () => {
  const resource = temporal.resource();
  const lamp = clientOf(temporal, resource);
  const permit = await lamp.acquire();
  const { runId } = permit;
  let guest: Permit | undefined;
  let later: Promise<string> | undefined;
  const back = permit.yield(async () => {
    assert.equal(permit.isHeld, false);
    guest = await lamp.acquire();
    later = lamp.withPermit(async ({ slot }) => slot);
    await untilWaiting(temporal.client, resource, 1);
  });
  await untilWaiting(temporal.client, resource, 2);
  await guest?.release();
  assert.equal(await back, permit);
  assert.equal(permit.isHeld, true);
  assert.notEqual(permit.runId, runId);
  await permit.release();
  assert.equal(await later, permit.slot);
  await assert.rejects(
    permit.yield(async () => undefined),
    PermitLostError,
  );

  // What the work throws comes through, and nothing is held then.
  const again = await lamp.acquire();
  await assert.rejects(
    again.yield(async () => {
      throw new Error('its own');
    }),
    /its own/,
  );
  await again.release();
  const [[of]] = (await acquireAll([{ of: clientOf(temporal, resource, { capacity: 2 }), permits: 2 }])).permits;
  await assert.rejects(
    of?.yield(async () => undefined) ?? assert.fail(),
    /^InvalidOptionsError: This permit can't yield: an adopted permit, or a permit of a set or of a key, can't rejoin the queue\.$/,
  );
  assert.equal(of?.isHeld, true);
  for (const slot of ['0', '1']) await temporal.client.workflow.getHandle(permitId({ resource, slot })).terminate();
});

test('in a plain withPermit, what counts after yield is what it holds then: its token, and its loss', async () => {
  const resource = temporal.resource();
  const lamp = clientOf(temporal, resource);
  const rejected = await lamp
    .withPermit(async (permit) => {
      const { runId } = permit;
      assert.equal(await permit.yield(async () => undefined), permit);
      assert.notEqual(permit.runId, runId);
      assert.equal(currentFencingToken().toString(), FencingToken.from(permit).toString());
      await elsewhere(() => operatorOf(lamp).revoke(permit.slot));
      await aborted(permit);
    })
    .catch((error: unknown) => error);
  assert.ok(rejected instanceof PermitLostError && rejected.how === 'revoked', String(rejected));
});

test('a client takes the permit of a Workflow that gives way, and the queue keeps what it knows from run to run', async () => {
  const resource = temporal.resource();
  const lamp = clientOf(temporal, resource);
  const { handle: party } = await startHolding(temporal, {
    resource,
    semaphore: { capacity: 1 },
    acquire: { ...LOW, preemptible: { grace: '10s', atCheckpoints: true } },
  });
  const alarm = lamp.acquire(HIGH);
  const view = await eventually(async () => {
    const seen = await temporal.client.workflow.getHandle(queueId(resource)).query<QueueView>(QUEUE_VIEW);
    const [, state] = seen.slots[0] ?? assert.fail();
    assert.ok('holder' in state && state.holder?.untilMs);
    return state.holder;
  });
  assert.equal(view.priorityKey, 4);
  await party.signal(workflows.finish); // it has no checkpoint, and is done in time
  assert.equal((await party.result()).at, 'done');
  await (await alarm).release();
});

test('an alarm interrupts a party, which then goes on with the next colour (docs/recipes.md)', async () => {
  const resource = temporal.resource('lamp');
  const lamp = clientOf(temporal, resource);
  const shown: string[] = [];
  const tokens: string[] = [];
  let ring: () => void = () => undefined;
  const rings = new Promise<void>((resolve) => {
    ring = resolve;
  });
  const setColour = async (colour: string, token: string) => {
    shown.push(colour);
    tokens.push(token);
    if (colour === 'blue') ring();
    await delay(100);
  };
  const party = async () => {
    await lamp.withPermit(
      async (permit) => {
        for (let n = 0; !(shown.includes('alarm') && shown.at(-1) === 'yellow'); n++) {
          await setColour(['red', 'blue', 'yellow'][n % 3] as string, permit.runId);
          await permit.checkpoint();
        }
      },
      { priority: { priorityKey: 4 }, preemptible: { grace: '10s', atCheckpoints: true } },
    );
  };
  const alarm = async () => {
    await rings;
    await lamp.withPermit(async (permit) => await setColour('alarm', permit.runId), {
      priority: { priorityKey: 1 },
      preempt: true,
    });
  };
  await Promise.all([party(), alarm()]);
  const at = shown.indexOf('alarm');
  const rainbow = shown.filter((colour) => colour !== 'alarm');
  assert.deepEqual(
    rainbow,
    rainbow.map((_, n) => ['red', 'blue', 'yellow'][n % 3]),
    'no colour was left out, and none came twice',
  );
  assert.equal(new Set([tokens[at - 1], tokens[at], tokens[at + 1]]).size, 3);
});

test('bad use is refused before any call', async () => {
  const called = { value: () => assert.fail('the server is called') };
  const client = Object.create(temporal.client, { withDeadline: called, withAbortSignal: called });
  const options = { capacity: 2, taskQueue: temporal.taskQueue };
  const lamp = new SemaphoreClient(client, temporal.resource(), options);
  const brief = new SemaphoreClient(client, temporal.resource(), { ...options, lease: '10s' });
  const { priority, preemptible } = LOW;
  await assert.rejects(lamp.acquire({ preempt: true }), /preempt needs a priority\.priorityKey/);
  await assert.rejects(lamp.acquire({ preemptible }), /preemptible needs a priority\.priorityKey/);
  await assert.rejects(
    brief.acquire({ priority, preemptible }),
    /preemptible.grace: expected at most the lease \(10 s\), got "30s"/,
  );
  await assert.rejects(
    lamp.tryAcquire({ priority, preempt: true }),
    /preempt can't be combined with a timeout of 0 \(tryAcquire\)/,
  );
  await assert.rejects(
    acquireAll([{ of: lamp, permits: 2 }], { priority, preempt: true } as object),
    /preempt can't be combined with several permits/,
  );
  await assert.rejects(
    lamp.withPermit(async () => 0, { onPreempted: 'restart' } as object),
    /Unknown option "onPreempted"/,
  );
});
