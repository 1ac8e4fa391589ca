import { workflowInfo } from '@temporalio/workflow';
import { DRAINED } from '../../shared/operator-protocol';
import { claimSlot, type PermitChild } from '../permit/claim';

/**
 * If the queue is terminated, its drained slots come free when somebody waits for them, at the next order of an operator, and after
 * this time. A permit whose queue still runs stays, although no worker was up to renew it: see `drained-slot`.
 */
const LEASE_MS = 60 * 60_000;

/**
 * The queue takes a slot out of use by claiming it like anybody else, so that safety stays with the claim, and acquirers
 * need to know nothing. The permit outlives the run, for the queue continues as new; its lease ends it if the queue is gone.
 *
 * @returns `undefined` when somebody else was faster
 */
export async function claimDrain(resource: string, slot: string): Promise<PermitChild | undefined> {
  const watchedBy = workflowInfo().workflowId;
  return await claimSlot({ resource, slot }, { leaseMs: LEASE_MS, purpose: DRAINED, watchedBy, outlivesRun: true });
}
