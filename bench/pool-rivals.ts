import { setTimeout as delay } from 'node:timers/promises';
import { Client, Connection } from '@temporalio/client';
import { Redis } from 'ioredis';
import { Semaphore } from 'redis-semaphore';
import { PermitPool, type PermitPoolOptions, SemaphoreClient } from '../src/client';

/** The ways that are compared. */
export const RIVALS = ['pool', 'client', 'polling', 'redis'] as const;
export type RivalName = (typeof RIVALS)[number];

/** How one process limits its calls. */
interface Rival {
  withPermit(fn: () => Promise<void>): Promise<void>;
  close(): Promise<void>;
}

export interface RivalInput {
  rival: RivalName;
  /** Of the Temporal server. */
  address: string;
  taskQueue: string;
  /** Where a Redis listens. */
  redisPort?: number;
  resource: string;
  capacity: number;
  pool?: PermitPoolOptions;
}

const POLL_EVERY_MS = 1_000;

/** Long enough for every bench. */
const REDIS_WAIT_MS = 10 * 60_000;

export async function openRival(input: RivalInput): Promise<Rival> {
  return input.rival === 'redis' ? await openRedis(input) : await openTemporal(input);
}

async function openTemporal({ rival, address, taskQueue, resource, capacity, pool: options }: RivalInput) {
  const connection = await Connection.connect({ address });
  const client = new SemaphoreClient(new Client({ connection }), resource, { capacity, taskQueue });
  const pool = new PermitPool(client, options);
  const ways: Record<Exclude<RivalName, 'redis'>, Rival['withPermit']> = {
    pool: async (fn) => await pool.withPermit(fn),
    client: async (fn) => await client.withPermit(fn),
    polling: async (fn) => {
      for (;;) {
        await using permit = await client.tryAcquire();
        if (permit) return await fn();
        await delay(POLL_EVERY_MS);
      }
    },
  };
  return {
    withPermit: ways[rival as Exclude<RivalName, 'redis'>],
    async close() {
      await pool.close();
      await connection.close();
    },
  };
}

/** As its documentation has it, but for the time to wait, which is 10 s there. It tries again each 10 ms. */
async function openRedis({ redisPort = 6379, resource, capacity }: RivalInput): Promise<Rival> {
  const redis = new Redis(redisPort, '127.0.0.1');
  await redis.ping();
  return {
    async withPermit(fn) {
      const semaphore = new Semaphore(redis, resource, capacity, { acquireTimeout: REDIS_WAIT_MS });
      await semaphore.acquire();
      try {
        await fn();
      } finally {
        await semaphore.release();
      }
    },
    async close() {
      await redis.quit();
    },
  };
}
