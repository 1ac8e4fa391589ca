import { proxyActivities } from '@temporalio/workflow';
import { Semaphore } from 'temporal-semaphore/workflow';
import type * as activities from './activities';

const { train } = proxyActivities<typeof activities>({
  startToCloseTimeout: '1 hour',
  heartbeatTimeout: '10s', // an activity learns from its heartbeats that it must stop
  cancellationType: 'WAIT_CANCELLATION_COMPLETED', // the permit is held until the activity has stopped
});

const gpus = new Semaphore('gpus', { capacity: 2 });

export async function trainModel(model: string): Promise<string> {
  return await gpus.withPermit((permit) => train(model, permit.slot));
}
