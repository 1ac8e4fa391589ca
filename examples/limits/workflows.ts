import { proxyActivities, sleep, workflowInfo } from '@temporalio/workflow';
import type * as activities from './activities';

const { callVendor } = proxyActivities<typeof activities>({ startToCloseTimeout: '1 minute' });

export interface Job {
  tenant: string;
  name: string;
}

export async function trainModel(job: Job): Promise<string> {
  return await work(job, 1_000);
}

export async function renderVideo(job: Job): Promise<string> {
  return await work(job, 500);
}

export async function exportReport(job: Job): Promise<string> {
  return await work(job, 200);
}

async function work({ tenant, name }: Job, ms: number): Promise<string> {
  const began = new Date();
  await callVendor(name);
  await sleep(ms);
  return `${workflowInfo().workflowType} ${tenant} ${began.toISOString()} ${new Date().toISOString()}`;
}
