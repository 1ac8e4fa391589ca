import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { Client, Connection, ServiceError } from '@temporalio/client';
import { type Cut, TcpProxy } from '../../scripts/support/tcp-proxy';
import { acquireAll, NoAnswerError, PermitPool, PermitTimeoutError, SemaphoreClient } from '../../src/client';
import { Operator } from '../../src/operator';
import { untilAllWait } from '../support/inspected';
import { useTemporal } from '../support/temporal';

// In an outage, each call ends within its own time and a second. On a busy machine, timers fire late, and a call waits for several in a row.
// So its time is counted by many short timers, which are late as often as the call's own.

const temporal = useTemporal({ shared: true });

const clean: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const step of clean.splice(0).reverse()) await step();
});

/** A call's own time … */
const OWN_MS = 500;
/** … and what it may take longer. */
const LATE_MS = 1_000;
const STEP_MS = 20;

const ONE = () => ({ capacity: 1, taskQueue: temporal.taskQueue });

async function timeIsOver(ms: number): Promise<false> {
  for (let leftMs = ms; leftMs > 0; leftMs -= STEP_MS) await delay(STEP_MS);
  return false;
}

interface Party {
  client: Client;
  semaphore: SemaphoreClient;
  keyed: SemaphoreClient;
  other: SemaphoreClient;
  /** Its only permit is held. */
  full: SemaphoreClient;
  operator: Operator;
}

const soon = () => AbortSignal.timeout(OWN_MS);
const isLate = (error: unknown) => error instanceof PermitTimeoutError;
const isAborted = (error: unknown) => (error as Error).name === 'TimeoutError';
const isNoAnswer = (error: unknown) => error instanceof NoAnswerError;
const isUnreached = (error: unknown) => error instanceof ServiceError;
const isLateWithCause = (error: unknown) => isLate(error) && (error as Error).cause !== undefined;

const CALLS: [what: string, call: (of: Party) => Promise<unknown>, ownMs: number, is: (error: unknown) => boolean][] = [
  ['acquire that times out', ({ semaphore }) => semaphore.acquire({ timeout: OWN_MS }), OWN_MS, isLate],
  ['acquire that is aborted', ({ semaphore }) => semaphore.acquire({ signal: soon() }), OWN_MS, isAborted],
  ['acquire that does not wait', ({ semaphore }) => semaphore.acquire({ timeout: 0 }), 0, isLateWithCause],
  ['tryAcquire', ({ semaphore }) => semaphore.tryAcquire(), 0, isUnreached],
  ['acquire of a key', ({ keyed }) => keyed.acquire({ timeout: OWN_MS, key: 'acme' }), OWN_MS, isLate],
  ['set that times out', ({ semaphore, other }) => acquireAll([semaphore, other], { timeout: OWN_MS }), OWN_MS, isLate],
  [
    'set that is aborted',
    ({ semaphore, other }) => acquireAll([semaphore, other], { signal: soon() }),
    OWN_MS,
    isAborted,
  ],
  [
    'call of a permit pool that times out',
    ({ other }) => new PermitPool(other).acquire({ timeout: OWN_MS }),
    OWN_MS,
    isLate,
  ],
  [
    'call of a permit pool that is aborted',
    ({ other }) => new PermitPool(other).acquire({ signal: soon() }),
    OWN_MS,
    isAborted,
  ],
  [
    'call of a permit pool that does not wait',
    ({ other }) => new PermitPool(other).acquire({ timeout: 0 }),
    0,
    isLateWithCause,
  ],
  ['revoke', ({ operator }) => operator.revoke('0', { timeout: OWN_MS }), OWN_MS, isNoAnswer],
  ['resize', ({ operator }) => operator.resize(1, { timeout: OWN_MS }), OWN_MS, isNoAnswer],
  [
    'pause',
    ({ client, semaphore }) => new Operator(client, semaphore.resource).pause({ timeout: OWN_MS }),
    OWN_MS,
    isNoAnswer,
  ],
];

async function party(): Promise<Party & { proxy: TcpProxy }> {
  const proxy = await TcpProxy.to(temporal.env.address);
  clean.push(() => proxy.close());
  const connection = await Connection.connect({ address: proxy.address });
  clean.push(() => connection.close());
  const client = new Client({ connection });
  const options = { capacity: 2, taskQueue: temporal.taskQueue, lease: '3s' };
  const semaphore = new SemaphoreClient(client, temporal.resource('a'), options);
  const keyed = new SemaphoreClient(client, temporal.resource('b'), { ...options, perKey: 1 });
  const other = new SemaphoreClient(client, temporal.resource('c'), options);
  const full = new SemaphoreClient(client, temporal.resource('d'), ONE());
  return {
    proxy,
    client,
    semaphore,
    keyed,
    other,
    full,
    operator: new Operator(client, semaphore.resource, { capacity: 2 }),
  };
}

for (const how of ['silent', 'reset'] satisfies Cut[]) {
  test(`while the server is ${how === 'silent' ? 'silent' : 'gone'}, each call ends within its time and a second`, async () => {
    const { proxy, ...all } = await party();
    const permit = await all.semaphore.acquire();
    const late: string[] = [];
    const within = async (what: string, call: Promise<unknown>, ms: number) => {
      const told = call.catch(() => undefined).then(() => true);
      if (!(await Promise.race([told, timeIsOver(ms + LATE_MS)]))) late.push(what);
    };
    const holder = await new SemaphoreClient(temporal.client, all.full.resource, ONE()).acquire();
    const stop = new AbortController();
    const watched = new SemaphoreClient(temporal.client, all.full.resource, ONE());
    const inLine = [all.full.acquire({ signal: stop.signal }), all.full.acquire({ timeout: 3_000 })];
    const refused = [
      assert.rejects(inLine[0] as Promise<unknown>, isAborted),
      assert.rejects(inLine[1] as Promise<unknown>, isLate),
    ];
    const timedOut = within('in line, timeout', inLine[1] as Promise<unknown>, 3_000);
    // Where the machine is so busy that the second one's time is over before it is seen, the first stands in line alone.
    const both = untilAllWait(watched, 2).catch(() => undefined);
    await Promise.race([both, timedOut.then(() => untilAllWait(watched, 1))]);
    proxy.cut(how);
    stop.abort(new DOMException('aborted', 'TimeoutError'));
    const aborted = within('in line, abort', inLine[0] as Promise<unknown>, 0);
    const releaseMs = permit.deadline.getTime() - Date.now();
    const calls = CALLS.map(([what, call, ownMs, is]) => {
      const made = call(all);
      return [within(what, made, ownMs), assert.rejects(made, is, what)];
    });
    const released = permit.release();
    await Promise.all([...calls.flat(), released, within('release', released, releaseMs)]);
    await Promise.all([...refused, timedOut, aborted]);
    await holder.release();
    assert.deepEqual(late, []);
  });
}
