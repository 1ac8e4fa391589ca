import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { Client, Connection, ServiceError } from '@temporalio/client';
import {
  acquireAll,
  PermitLostError,
  PermitPool,
  SemaphoreClient,
  type SemaphoreClientOptions,
  SemaphoreClosedError,
  withPermits,
} from '../../src/client';
import { keyResource } from '../../src/shared/key-names';
import { permitId } from '../../src/shared/permit-id';
import type { ClosingInput } from '../support/closing-main';
import { untilAllWait, untilStates } from '../support/inspected';
import { eventually, useTemporal } from '../support/temporal';

const temporal = useTemporal({ shared: true });

function optionsOf(options: Partial<SemaphoreClientOptions> = {}): SemaphoreClientOptions {
  return { capacity: 1, taskQueue: temporal.taskQueue, ...options };
}

function clientOf(resource: string, options?: Partial<SemaphoreClientOptions>, client = temporal.client) {
  return new SemaphoreClient(client, resource, optionsOf(options));
}

const isClosed = (error: unknown) => error instanceof SemaphoreClosedError;

/** Runs it to its end. @returns what it said */
async function runToEnd(during: ClosingInput['during'], resource: string): Promise<string> {
  const input: ClosingInput = {
    address: temporal.env.address,
    resource,
    semaphore: optionsOf({ lease: '3s' }),
    during,
  };
  const main = join(__dirname, '..', 'support', 'closing-main.ts');
  const { stdout } = await promisify(execFile)(process.execPath, ['--import', 'tsx', main, JSON.stringify(input)]);
  return stdout;
}

for (const [during, said] of [
  ['withPermit', 'the work is done'],
  ['release', 'undefined'],
  ['timeout', 'PermitTimeoutError'],
  ['abort', 'Error'],
  ['pool', 'undefined'],
  ['operator', 'NoAnswerError'],
] as const) {
  test(`a process whose server goes away survives the close of its connection after: ${during}`, async () => {
    const resource = temporal.resource();
    const isWaiting = during === 'timeout' || during === 'abort';
    const holder = isWaiting ? await clientOf(resource).acquire() : undefined;
    const out = await runToEnd(during, resource);
    assert.ok(out.includes(`closed after: ${said}`), out);
    if (during === 'withPermit')
      assert.match(out, /warning PermitReleaseWarning The permit permit:.* could not be released/);
    await holder?.release();
  });
}

test('close ends the waits at once, gives back what was handed out, and lets a function under a permit finish', async () => {
  const resource = temporal.resource();
  const semaphore = clientOf(resource, { capacity: 3 });
  const permit = await semaphore.acquire();
  const tried = await semaphore.tryAcquire();
  let finish = () => {};
  let begin = () => {};
  const begun = new Promise<void>((resolve) => {
    begin = resolve;
  });
  const work = semaphore.withPermit(async ({ signal }) => {
    begin();
    await new Promise<void>((resolve) => {
      finish = resolve;
    });
    return signal.aborted;
  });
  await begun;
  const waits = [
    semaphore.acquire(),
    semaphore.withPermit(() => assert.fail('it ran')),
    acquireAll([{ of: semaphore, permits: 2 }]),
    withPermits([semaphore], () => assert.fail('it ran')),
  ].map((wait) => assert.rejects(wait, isClosed));
  await untilAllWait(clientOf(resource, { capacity: 3 }), 4);
  const closing = semaphore.close();
  assert.ok(permit.signal.aborted && permit.signal.reason instanceof PermitLostError);
  assert.equal(permit.signal.reason.how, 'released');
  assert.ok(tried?.signal.aborted);
  await Promise.all(waits);
  for (const call of [() => semaphore.acquire(), () => semaphore.tryAcquire(), () => semaphore.adopt(permit.ref())]) {
    await assert.rejects(call, isClosed);
  }
  await untilStates(clientOf(resource, { capacity: 3 }), /^(?!.*held.*held).*held/); // the two are back, the third is held
  let hasClosed = false;
  void closing.then(() => {
    hasClosed = true;
  });
  await delay(10);
  assert.equal(hasClosed, false, 'a function still runs under its permit');
  finish();
  assert.equal(await work, false, 'its signal has not aborted');
  await closing;
  await semaphore.close();
  await permit.release();
});

test('close gives back what is left of a permit of a key that has lost one of its two permits', async () => {
  for (const isKeysLost of [true, false]) {
    const resource = temporal.resource('keyed');
    const semaphore = clientOf(resource, { perKey: 1, lease: '10 minutes', renewEvery: 200 });
    const permit = await semaphore.acquire({ key: 'acme' });
    const ids = [resource, keyResource(resource, 'acme')].map((of) => permitId({ resource: of, slot: '0' }));
    const [lost, left] = (isKeysLost ? ids.reverse() : ids).map((id) => temporal.client.workflow.getHandle(id));
    await lost?.terminate();
    await eventually(async () => assert.ok(permit.signal.aborted));
    await semaphore.close();
    assert.equal((await left?.describe())?.status.name, 'COMPLETED');
  }
});

test('a set that holds a part ends with the close of any of its clients, and an `await using` closes', async () => {
  const [first, second] = [temporal.resource('a'), temporal.resource('b')];
  const holder = await clientOf(second).acquire();
  const held = clientOf(first);
  const set = acquireAll([held, clientOf(second)]);
  const refused = assert.rejects(set, isClosed);
  await untilAllWait(clientOf(second), 1);
  await held[Symbol.asyncDispose]();
  await refused;
  await (await clientOf(first).acquire({ timeout: '10s' })).release();
  await holder.release();
});

test('a call hears at once that its connection was closed, while it waits as when it begins', async () => {
  const resource = temporal.resource();
  const holder = await clientOf(resource).acquire();
  const connection = await Connection.connect({ address: temporal.env.address });
  const semaphore = clientOf(resource, {}, new Client({ connection }));
  const says = (error: unknown) =>
    error instanceof ServiceError && /connection of this client was closed/.test(error.message);
  const waits = [semaphore.acquire(), semaphore.withPermit(() => 'ran'), new PermitPool(semaphore).acquire()];
  const told = Promise.all(waits.map((wait) => assert.rejects(wait, says)));
  await untilAllWait(clientOf(resource), 3);
  await connection.close();
  // A long poll of the server, by which they heard of it before, takes 20 s.
  assert.ok(await Promise.race([told.then(() => true), delay(10_000, false)]));
  await assert.rejects(semaphore.acquire(), says);
  await holder.release();
});
