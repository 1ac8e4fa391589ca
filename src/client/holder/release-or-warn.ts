import type { Permit } from './permit';

/**
 * Releases a permit after its work is done. A release that fails only warns, since the work counts more. (The warning is Node's:
 * a library has no log.) The slot then stays taken until the lease ends, which an operator may want to know.
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
