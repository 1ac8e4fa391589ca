import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Client, type WorkflowClientInterceptor } from '@temporalio/client';
import {
  acquireAll,
  type ClientAcquireOptions,
  InvalidOptionsError,
  type Permit,
  PermitLostError,
  PermitPool,
  SemaphoreClient,
  type SemaphoreClientOptions,
  withPermits,
} from '../../src/client';
import { currentFencingToken } from '../../src/fencing';
import { permitId } from '../../src/shared/permit-id';
import { REVOKE } from '../../src/shared/protocol';
import { assertSafe, untilWaiting, useTemporal } from '../support/temporal';

const temporal = useTemporal({ shared: true });

function clientOf(resource: string, options: Partial<SemaphoreClientOptions> = {}) {
  const { taskQueue } = temporal;
  return new SemaphoreClient(temporal.client, resource, {
    ...(options.slots ? {} : { capacity: 1 }),
    taskQueue,
    ...options,
  });
}

function statusOf({ workflowId, runId }: Pick<Permit, 'workflowId' | 'runId'>) {
  return temporal.client.workflow.getHandle(workflowId, runId).describe();
}

/** A client reads two clocks, one after the other. */
const CLOCKS_MS = 5_000;

test('a free permit is had at once, says what it is, and is free again after release', async () => {
  const resource = temporal.resource();
  const semaphore = clientOf(resource, { slots: ['gpu-a'] });
  const askedMs = Date.now();
  const permit = await semaphore.acquire({ purpose: 'proof' });
  const knownMs = Date.now();
  assert.deepEqual(permit.ref(), {
    resource,
    slot: 'gpu-a',
    workflowId: permitId({ resource, slot: 'gpu-a' }),
    runId: permit.runId,
    leaseMs: 30_000,
  });
  const claimedMs = permit.deadline.getTime() - 30_000; // the default lease
  assert.ok(claimedMs >= askedMs - CLOCKS_MS && claimedMs <= knownMs + CLOCKS_MS, 'the lease counts from its claim');
  const { memo } = await statusOf(permit);
  assert.deepEqual(
    { ...memo, claimId: undefined },
    {
      holder: { identity: temporal.client.options.identity },
      leaseMs: 30_000,
      purpose: 'proof',
      slots: memo?.slots,
      claimId: undefined,
    },
  );
  assert.equal(await semaphore.tryAcquire(), undefined);
  await Promise.all([permit.release(), permit.release()]);
  assert.equal((await statusOf(permit)).status.name, 'COMPLETED');
  assert.equal(permit.signal.aborted, false, 'a release is no loss');
  await assert.rejects(permit.renew(), PermitLostError);
  const again = await semaphore.tryAcquire();
  assert.ok(again && again.runId > permit.runId, 'the later permit of a slot has the greater run ID');
  await again.release();
});

test('inside withPermit its fencing token is the current one', async () => {
  const semaphore = clientOf(temporal.resource());
  await semaphore.withPermit(async ({ runId }) => assert.equal(currentFencingToken().runId, runId));
});

test('an aborted acquire rejects with the reason of its signal', async () => {
  const resource = temporal.resource();
  const semaphore = clientOf(resource);
  const permit = await semaphore.acquire();
  const stop = new AbortController();
  const rejected = assert.rejects(semaphore.acquire({ signal: stop.signal }), /enough/);
  await untilWaiting(temporal.client, resource, 1);
  stop.abort(new Error('enough'));
  await rejected;
  await assert.rejects(semaphore.acquire({ signal: AbortSignal.abort(new Error('from the start')) }), /from the start/);
  await permit.release();
});

test('aborted under way, an acquire that does not wait rejects with its reason, and the work does not begin', async () => {
  const resource = temporal.resource();
  const held = await Promise.all([1, 2, 3].map(() => clientOf(resource, { capacity: 3 }).acquire()));
  const { connection } = temporal.client;
  for (const act of [
    (semaphore: SemaphoreClient, signal: AbortSignal) =>
      semaphore.withPermit(async () => assert.fail(), { timeout: 0, signal }),
    (semaphore: SemaphoreClient, signal: AbortSignal) => semaphore.acquire({ timeout: 0, signal }),
    (semaphore: SemaphoreClient, signal: AbortSignal) => semaphore.tryAcquire({ signal }),
  ]) {
    const stop = new AbortController();
    let tries = 0;
    const abortsOnStart: WorkflowClientInterceptor = {
      start: async (input, next) => {
        tries++;
        stop.abort(new Error('enough'));
        return await next(input);
      },
    };
    const client = new Client({ connection, interceptors: { workflow: [abortsOnStart] } });
    const semaphore = new SemaphoreClient(client, resource, { capacity: 3, taskQueue: temporal.taskQueue });
    await assert.rejects(act(semaphore, stop.signal), /enough/);
    assert.equal(tries, 1);
  }
  await Promise.all(held.map((permit) => permit.release()));
  await assertSafe(temporal.client, resource, 3, []);
});

test('a permit that ended before its function was through is lost, though the client has not heard of it', async () => {
  const resource = temporal.resource();
  const semaphore = clientOf(resource, { capacity: 2 });
  const revoke = async ({ workflowId, runId }: Permit) => {
    const handle = temporal.client.workflow.getHandle(workflowId, runId);
    await handle.signal(REVOKE, { reason: 'for another' });
  };
  for (let round = 0; round < 3; round++) {
    await assert.rejects(semaphore.withPermit(revoke), PermitLostError);
    await assert.rejects(
      withPermits([{ of: semaphore, permits: 2 }], async ([[permit = assert.fail()]]) => await revoke(permit)),
      PermitLostError,
    );
  }
  await assertSafe(temporal.client, resource, 2, []);
});

test('the close of a client waits for a release that is under way', async () => {
  const semaphore = clientOf(temporal.resource());
  const permit = await semaphore.acquire();
  void permit.release();
  await semaphore.close();
  assert.equal((await statusOf(permit)).status.name, 'COMPLETED');
});

test('the close of a client gives back all that it has handed out, however its holder came to it', async () => {
  const [resource, other] = [temporal.resource('a'), temporal.resource('b')];
  const semaphore = clientOf(resource, { capacity: 4 });
  const beside = clientOf(other);
  const adopted = await semaphore.adopt((await clientOf(resource, { capacity: 4 }).acquire()).detach());
  const yielded = await semaphore.acquire();
  await yielded.yield(() => undefined);
  const set = await acquireAll([semaphore, beside]);
  await semaphore.close();
  const [ofSet, ofBeside] = set.permits;
  for (const permit of [adopted, yielded, ofSet]) {
    assert.equal((await statusOf(permit)).status.name, 'COMPLETED', permit.slot);
    assert.equal((permit.signal.reason as PermitLostError | undefined)?.how, 'released');
  }
  assert.ok(ofBeside.isHeld, 'its client is open');
  await beside.close();
  assert.equal((await statusOf(ofBeside)).status.name, 'COMPLETED');
});

const BAD: [string, unknown, unknown, RegExp][] = [
  ['too long a hold', { capacity: 1, taskQueue: 'q', maxHold: '2 days' }, {}, /maxHold: expected at most 18 h 15 min/],
  [
    'a renewal that comes after the holder has to stop',
    { capacity: 1, taskQueue: 'q', lease: '60s', renewEvery: '54s' },
    {},
    /renewEvery: expected less than nine tenths of the lease \(54 s\), after which the holder has to stop, got "54s"/,
  ],
  ['a signal that is none', { capacity: 1, taskQueue: 'q' }, { signal: {} }, /signal: expected an AbortSignal/],
];
for (const [what, options, acquire, message] of BAD) {
  test(`${what} is refused before any call`, async () => {
    await assert.rejects(
      async () =>
        await new SemaphoreClient(temporal.client, 'a resource', options as SemaphoreClientOptions).acquire(
          acquire as ClientAcquireOptions,
        ),
      (error) => error instanceof InvalidOptionsError && message.test(error.message),
    );
  });
}

test('a loss has what the function threw as its cause, unless that tells of the loss', async () => {
  const resource = temporal.resource();
  const semaphore = new SemaphoreClient(temporal.client, resource, { capacity: 1, taskQueue: temporal.taskQueue });
  await using calls = new PermitPool(semaphore);
  interface Held {
    readonly runId: string;
    readonly signal: AbortSignal;
  }
  const losing = (thrown: (signal: AbortSignal) => unknown) => async (held: Held) => {
    const aborted = new Promise((resolve) => held.signal.addEventListener('abort', resolve));
    await temporal.client.workflow.getHandle(permitId({ resource, slot: '0' }), held.runId).signal(REVOKE, {});
    await aborted;
    throw thrown(held.signal);
  };
  const ways: ((fn: (held: Held) => Promise<never>) => Promise<never>)[] = [
    (fn) => semaphore.withPermit(fn),
    (fn) => withPermits([semaphore], ([held]) => fn(held)),
    (fn) => calls.withPermit(fn),
  ];
  const refusal = new Error('refused');
  for (const withOne of ways) {
    const causes = [];
    for (const thrown of [
      () => refusal,
      ({ reason }: AbortSignal) => reason,
      () => new DOMException('', 'AbortError'),
    ]) {
      const error = await withOne(losing(thrown)).catch((error: unknown) => error);
      assert.ok(error instanceof PermitLostError && error.how === 'revoked', String(error));
      causes.push(error.cause);
    }
    assert.deepEqual(causes, [refusal, undefined, undefined]);
  }
});
