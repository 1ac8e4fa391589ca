import type { Permit } from './permit';

/**
 * Gives a permit back after its work is done, which counts more than a release that fails: that only warns. A library has no
 * log of its own. The slot stays taken until the end of the lease, which an operator may want to know.
 */
export async function releaseOrWarn(permit: Permit): Promise<void> {
  await permit.release().catch((error: unknown) => warn(permit, error));
}

function warn({ workflowId, runId, deadline }: Permit, error: unknown): void {
  process.emitWarning(`The permit ${workflowId}, run ${runId}, could not be released. It ends by its lease.`, {
    type: 'PermitReleaseWarning',
    detail: `At ${deadline.toISOString()} at the latest. ${error instanceof Error ? error.message : String(error)}`,
  });
}
