import { refuse } from './invalid-options';
import { checkResource, checkSlot, permitId } from './permit-id';
import type { PermitRef } from './protocol';

/** Checks a reference that came from elsewhere. @throws InvalidOptionsError */
export function resolveRef(ref: PermitRef): PermitRef {
  if (typeof ref !== 'object' || ref === null) refuse('ref', 'what permit.ref() gave', ref);
  const { resource, slot, workflowId, runId, leaseMs } = ref;
  checkResource(resource);
  checkSlot(resource, slot);
  const expected = permitId({ resource, slot });
  if (workflowId !== expected) refuse('ref.workflowId', `"${expected}"`, workflowId);
  if (typeof runId !== 'string' || runId === '') refuse('ref.runId', 'a run ID', runId);
  if (!(leaseMs > 0)) refuse('ref.leaseMs', 'a number of milliseconds above 0', leaseMs);
  return { resource, slot, workflowId, runId, leaseMs };
}
