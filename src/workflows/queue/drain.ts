import { workflowInfo } from '@temporalio/workflow';
import { DRAINED } from '../../shared/operator-protocol';
import { claimSlot, type PermitChild } from '../permit/claim';

/**
 * Longer than any outage of the permit workers: a pause must hold although nobody can renew it. If the queue is terminated,
 * its drained slots come free at the next order of an operator, and after this time.
 */
const LEASE_MS = 7 * 24 * 60 * 60_000;

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
