// Workflows that know nothing of permits.
import { proxyActivities, sleep } from '@temporalio/workflow';
import type * as activities from './activities';

const { callVendor, tokenHere } = proxyActivities<typeof activities>({ startToCloseTimeout: '1 minute' });

export interface Training {
  tenant: string;
  ms: number;
}

/** @returns when it ran, and the fencing tokens of an activity that is not limited, and of one that is */
export async function trainModel({ ms }: Training) {
  const fromMs = Date.now();
  const own = await tokenHere();
  const calls = await callVendor();
  await sleep(ms);
  return { fromMs, toMs: Date.now(), own, calls };
}

export async function unlimited(): Promise<string> {
  return await tokenHere();
}
