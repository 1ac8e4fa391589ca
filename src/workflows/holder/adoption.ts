import { workflowInfo } from '@temporalio/workflow';
import { Lease } from '../../shared/lease';
import { resolveRef } from '../../shared/permit-id';
import type { PermitRef } from '../../shared/protocol';
import { checked, PermitLostError } from '../errors';
import { adoptSignal, deliver } from '../signals';
import { Permit } from './permit';
import { endOfAdopted } from './permit-end';

/** Makes this Workflow the holder of a permit that was acquired elsewhere. Throws as `Semaphore.adopt` says. */
export async function adopt(ref: PermitRef): Promise<Permit> {
  const reference = checked(() => resolveRef(ref));
  const { workflowId, runId, workflowType } = workflowInfo();
  const lease = new Lease(reference.leaseMs, Date.now(), Number.POSITIVE_INFINITY, Date.now);
  const permit = new Permit(reference, endOfAdopted(reference), lease, { outlivesRun: true });
  const delivery = await deliver(reference, adoptSignal, { holder: { workflowId, runId, workflowType } });
  if (delivery !== 'delivered') throw new PermitLostError(reference, reference.runId, 'unknown');
  return permit;
}
