import type { AcquireOptions } from '@/shared/options';
import type { Luck } from '../random';
import type { PoolSetup } from './input';

/** What one acquire of a pool is to be: some give way to others, some ask for it. */
export function preemption(
  luck: Luck,
  { paceMs, perKey }: PoolSetup,
  timeout: number | undefined,
): Pick<AcquireOptions, 'preempt' | 'preemptible'> {
  const [isPreemptible, asks, graceMs] = [luck.chance(0.9), luck.chance(0.9), luck.whole(200, 3_000)];
  if (perKey !== undefined) return {};
  return {
    ...(isPreemptible && paceMs === undefined && { preemptible: { grace: graceMs } }),
    ...(asks && timeout !== 0 && { preempt: true }),
  };
}
