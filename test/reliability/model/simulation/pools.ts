import assert from 'node:assert/strict';
import { resolveSemaphore } from '../../../../src/shared/options';
import { Process } from './caller';
import { SimulatedPool } from './permit-pool';
import { Server } from './server';
import { BrokenPromise } from './simulate';
import { World } from './world';

const RUN_MS = 90_000;
/** By then permits have moved until each pool has its share. */
const SETTLED_MS = 45_000;

export interface Shared {
  capacity: number;
  pools: number;
  /** Of the calls that the permits could carry. */
  used: number;
  /** Permits that were handed over since they had settled. */
  handedOver: number;
}

/** Two to eight permit pools under constant load. @throws BrokenPromise when hand-overs never stop, or a pool gets nothing */
export async function simulatePools(seed: number): Promise<Shared> {
  const world = new World(seed, { lostAnswer: 0, lateMessage: 0.01 });
  try {
    return await world.run(share(world), 2 * RUN_MS);
  } catch (error) {
    throw new BrokenPromise(seed, world.story, error);
  }
}

async function share(world: World): Promise<Shared> {
  const server = new Server(world, false);
  const count = world.integer(2, 8);
  const capacity = world.random() < 0.5 ? count * world.integer(1, 3) : world.integer(1, 10);
  const semaphore = resolveSemaphore('a', { capacity, lease: '10s', recheckAfter: 1_000 }, { leaseMs: 10_000 });
  const pools = Array.from(
    { length: count },
    (_, index) => new SimulatedPool(server, semaphore, new Process(`pool ${index}`)),
  );
  const workMs = world.integer(20, 150);
  const served = pools.map(() => 0);
  const lanes = pools.flatMap((pool, index) =>
    Array.from({ length: capacity + 2 }, async () => {
      while (world.nowMs < RUN_MS) {
        await pool.call(workMs);
        if (world.nowMs > SETTLED_MS) served[index] = (served[index] ?? 0) + 1;
      }
    }),
  );
  await world.sleep(SETTLED_MS);
  const before = pools.map(({ givenBack }) => givenBack);
  await world.sleep(RUN_MS - SETTLED_MS - 1_000);
  const handedOver = pools.reduce((sum, { givenBack }, index) => sum + givenBack - (before[index] ?? 0), 0);
  await Promise.all(lanes);
  await Promise.all(pools.map((pool) => pool.close()));
  const used = (served.reduce((sum, one) => sum + one) * workMs) / ((RUN_MS - SETTLED_MS) * capacity);
  const told = { capacity, pools: count, used, handedOver };
  assert.ok(
    served.every((one) => one > 0),
    `a pool is never served: ${served}`,
  );
  if (capacity % count === 0) {
    assert.equal(handedOver, 0, `permits go round for ever: ${JSON.stringify(told)}`);
    const least = (Math.min(...served) * count) / served.reduce((sum, one) => sum + one);
    assert.ok(least > 0.9, `a pool has less than its share: ${served} calls`);
  }
  assert.ok(used > 0.8, `permits are not used: ${JSON.stringify(told)}`);
  return told;
}
