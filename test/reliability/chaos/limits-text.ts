import { KEYS, type PoolSetup } from './actors/input';
import { deployedCount } from './operators';
import type { Luck } from './random';

/** So many of a file's entries are paused. */
const PAUSED = 0.1;

/**
 * A limits file of these pools, by luck: it shrinks some of them, lets others grow, and names two of their keys; the third has the
 * default. Without luck, all is as deployed, and every key is named.
 */
export function limitsText(pools: readonly PoolSetup[], version: number, luck?: Luck): string {
  const limit = (deployed: number) => ({
    capacity: luck ? luck.whole(1, deployed + 2) : deployed,
    paused: luck?.chance(PAUSED) ? { reason: 'chaos' } : false,
  });
  const keysOf = (declared: number) => ({
    declared,
    default: limit(declared).capacity,
    keys: Object.fromEntries((luck ? luck.shuffled(KEYS).slice(1) : KEYS).map((key) => [key, limit(declared)])),
  });
  const entries = pools.map((pool) => {
    const declared = deployedCount(pool);
    const { resource, perKey } = pool;
    return [resource, { ...limit(declared), declared, ...(perKey !== undefined && { perKey: keysOf(perKey) }) }];
  });
  return JSON.stringify({ version, resources: Object.fromEntries(entries) });
}
