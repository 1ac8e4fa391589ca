import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { Semaphore as RedisSemaphore } from 'redis-semaphore';
import { startPostgres } from '../scripts/support/postgres/server';
import { SemaphoreClient } from '../src/client';
import { startRedis } from './redis-server';
import { type Row, row } from './report';
import { type Bench, median } from './support';
import type { ConsumerInput, Held } from './workflows';

/** Each rival hands one slot from caller to caller, so that hand-offs are all it can be slow in. */
const CALLERS = 30;
const HOLD_MS = 100;

interface Raced {
  name: string;
  held: Held[];
}

/** The ways to wait for one slot, each in turn. Rows: our median hand-off beside theirs. */
export async function rivals(bench: Bench): Promise<Row[]> {
  const inWorkflows = await raceWorkflows(bench);
  const outside = await raceClients(bench);
  return [...compare('in Workflows', inWorkflows), ...compare('in clients', outside)];
}

function compare(where: string, [ours, ...others]: Raced[]): Row[] {
  return others.map(({ name, held }) =>
    row(`hand-off ${where}`, [name, handOffMs(held)], handOffMs(ours?.held ?? []), 'ms'),
  );
}

/** From the end of one hold to the start of the next. @throws Error when two overlap */
function handOffMs(held: readonly Held[]): number {
  const inOrder = [...held].sort((a, b) => a.fromMs - b.fromMs);
  const gaps = inOrder.slice(1).map(({ fromMs }, index) => fromMs - (inOrder[index]?.toMs ?? 0));
  if (gaps.some((gap) => gap < 0)) throw new Error('two held one slot at a time');
  return median(gaps);
}

async function raceWorkflows({ client, taskQueue }: Bench): Promise<Raced[]> {
  const race = async (name: string, type: string, input: Partial<ConsumerInput> = {}): Promise<Raced> => {
    const resource = `rival-${randomUUID()}`;
    const lock =
      type === 'lockConsumer' &&
      (await client.workflow.start('lockWorkflow', { workflowId: resource, taskQueue, args: [1] }));
    const args = [{ resource, capacity: 1, holdMs: HOLD_MS, ...input }];
    const run = () => client.workflow.execute(type, { workflowId: `${resource}-${randomUUID()}`, taskQueue, args });
    const held: Held[] = await Promise.all(Array.from({ length: CALLERS }, run));
    if (lock) await lock.terminate();
    return { name, held };
  };
  return [
    await race('parking', 'parkingConsumer'),
    await race('polling each second', 'pollingConsumer'),
    await race('polling each 5 s', 'pollingConsumer', { pollMs: 5_000 }),
    await race('a lock Workflow', 'lockConsumer'),
  ];
}

type WithLock = (fn: () => Promise<void>) => Promise<void>;

async function raceClients({ client, taskQueue }: Bench): Promise<Raced[]> {
  const race = async (name: string, withLock: WithLock): Promise<Raced> => {
    const held: Held[] = [];
    const hold = async () => {
      const fromMs = performance.now();
      await delay(HOLD_MS);
      held.push({ fromMs, toMs: performance.now() });
    };
    await Promise.all(Array.from({ length: CALLERS }, () => withLock(hold)));
    return { name, held };
  };
  const pool = () => new SemaphoreClient(client, `rival-${randomUUID()}`, { capacity: 1, taskQueue });
  const parked = pool();
  const raced = [
    await race('parking', (fn) => parked.withPermit(fn)),
    await race('polling each second', polling(pool(), 1_000)),
    await race('polling each 5 s', polling(pool(), 5_000)),
  ];
  for (const rival of [advisoryLock, redisLock]) {
    const opened = await rival();
    if (opened) raced.push(await race(opened.name, opened.withLock).finally(opened.close));
  }
  return raced;
}

function polling(pool: SemaphoreClient, everyMs: number): WithLock {
  return async (fn) => {
    for (;;) {
      await using permit = await pool.tryAcquire();
      if (permit) return await fn();
      await delay(everyMs);
    }
  };
}

/** `pg_advisory_lock` blocks in the database, and ends with its connection. */
async function advisoryLock() {
  const postgres = await startPostgres();
  const connections = await Promise.all(Array.from({ length: CALLERS }, () => postgres.connect()));
  const withLock: WithLock = async (fn) => {
    const connection = connections.pop();
    await connection?.query('SELECT pg_advisory_lock(1)');
    await fn();
    await connection?.query('SELECT pg_advisory_unlock(1)');
  };
  return { name: 'PostgreSQL advisory lock', withLock, close: () => postgres.stop() };
}

/** As its documentation has it; it tries again each 10 ms. */
async function redisLock() {
  const server = await startRedis();
  if (!server) {
    console.error('Left out: redis-semaphore. There is no redis-server (Debian: apt-get install -y redis-server).');
    return undefined;
  }
  const redis = new Redis(server.port, '127.0.0.1');
  const withLock: WithLock = async (fn) => {
    const semaphore = new RedisSemaphore(redis, 'rival', 1, { acquireTimeout: 600_000 });
    await semaphore.acquire();
    await fn();
    await semaphore.release();
  };
  const close = async () => {
    await redis.quit();
    server.stop();
  };
  return { name: 'redis-semaphore, polling each 10 ms', withLock, close };
}
