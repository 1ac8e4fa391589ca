import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { type Client, isGrpcDeadlineError, ServiceError } from '@temporalio/client';
import { isTransient } from './grpc-errors';
import { Server } from './server';

/** As the SDK does: one listener for each request, which it never removes. */
function clientThatListens(seen: (signal: AbortSignal) => void): Client {
  const fake = {
    connection: {},
    withAbortSignal: async (signal: AbortSignal, call: () => Promise<unknown>) => {
      signal.addEventListener('abort', () => undefined);
      seen(signal);
      return await call();
    },
    withDeadline: async (_: unknown, call: () => Promise<unknown>) => await call(),
  };
  return fake as unknown as Client;
}

test('a call leaves nothing behind: neither on the signal of its caller, nor in memory', async () => {
  setFlagsFromString('--expose-gc');
  const collect: () => void = runInNewContext('gc');
  const { signal } = new AbortController();
  const seen: WeakRef<AbortSignal>[] = [];
  const server = new Server(clientThatListens((own) => seen.push(new WeakRef(own))));
  for (let call = 0; call < 10; call++) await server.call(async () => undefined, 1_000, signal);
  assert.equal(getEventListeners(signal, 'abort').length, 0);
  await delay(10); // a WeakRef holds on until the turn in which it was made is over
  collect();
  assert.equal(seen.filter((ref) => ref.deref()).length, 0);
});

test("a call is cut off when its caller's signal aborts, and is not made when it has already", async () => {
  const caller = new AbortController();
  const reasons: unknown[] = [];
  const server = new Server(
    clientThatListens((own) => {
      if (own.aborted) reasons.push(own.reason);
      own.addEventListener('abort', () => reasons.push(own.reason));
    }),
  );
  const isEnough = (reason: unknown) => reason === 'enough';
  await assert.rejects(
    server.call(async () => caller.abort('enough'), 1_000, caller.signal),
    isEnough,
  );
  assert.deepEqual(reasons, ['enough']);
  await assert.rejects(
    server.call(async () => assert.fail('it was made'), 1_000, caller.signal),
    isEnough,
  );
});

test('one call that takes many requests does not warn of a leak: its listeners go with it', async () => {
  const warnings: Error[] = [];
  const onWarning = (warning: Error) => warnings.push(warning);
  process.on('warning', onWarning);
  const server = new Server(
    clientThatListens((own) => {
      for (let request = 0; request < 50; request++) own.addEventListener('abort', () => undefined);
    }),
  );
  await server.call(async () => undefined);
  await delay(10); // a warning comes a tick later
  process.off('warning', onWarning);
  assert.deepEqual(warnings, []);
});

test('a call ends in its time, also when the SDK does not', async () => {
  const server = new Server(clientThatListens(() => undefined));
  await assert.rejects(
    server.call(() => new Promise(() => undefined), 10),
    (error) => isTransient(error) && isGrpcDeadlineError(error),
  );
});

test('what a failed call leaves behind goes on, and the end waits for it', async () => {
  const server = new Server(clientThatListens(() => undefined));
  await server.ended();
  let finish = () => {};
  const work = new Promise<void>((resolve) => {
    finish = resolve;
  });
  await server.leaveBehind(work, 1);
  let hasEnded = false;
  const ended = server.ended().then(() => {
    hasEnded = true;
  });
  await delay(10);
  assert.equal(hasEnded, false);
  finish();
  await ended;
});

test('the end also waits for what begins while it waits', async () => {
  const server = new Server(clientThatListens(() => undefined));
  let isDone = false;
  const second = async () => {
    await delay(10);
    isDone = true;
  };
  void server.track(Promise.resolve().then(() => void server.track(second())));
  await server.ended();
  assert.ok(isDone);
});

test('a long poll that a paused Workflow refuses is not made again at once, nor for ever', async () => {
  const refusal = Object.assign(new Error('9 FAILED_PRECONDITION: Workflow is paused.'), {
    code: 9,
    details: '',
    metadata: {},
  });
  const enough = AbortSignal.timeout(1_500);
  let calls = 0;
  const refused = async () => {
    calls++;
    throw new ServiceError('Workflow Update failed', { cause: refusal });
  };
  const server = new Server(clientThatListens(() => undefined));
  await assert.rejects(server.poll(refused, enough, () => undefined));
  assert.equal(calls, 1);
});
