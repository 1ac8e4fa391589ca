import { messageOf } from '../server/errors';
import { isClosedConnection } from '../server/grpc-errors';

/** What {@link releaseOrWarn} releases, and names if the release fails. */
interface Released {
  readonly workflowId: string;
  readonly runId: string;
  readonly deadline: Date;
  /** Why the release has not reached the server, if the lease has ended the permit. */
  readonly releaseError?: unknown;
  release(): Promise<void>;
}

/**
 * Releases a permit after its work is done. A release that fails only warns, since the work counts more. (The warning is Node's:
 * a library has no log.) The slot then stays taken until the lease ends, which an operator may want to know.
 */
export async function releaseOrWarn(permit: Released): Promise<void> {
  const error = await permit.release().then(
    () => permit.releaseError,
    (error: unknown) => error,
  );
  if (error !== undefined) warn(permit, error);
}

function warn({ workflowId, runId, deadline }: Released, error: unknown): void {
  const isClosed = isClosedConnection(error);
  process.emitWarning(
    `The permit ${workflowId}, run ${runId}, could not be released${isClosed ? ', because its connection was already closed' : ''}. It ends with its lease.`,
    {
      type: 'PermitReleaseWarning',
      detail: `At ${deadline.toISOString()} at the latest, while a permit worker runs. ${isClosed ? 'Await withPermit, or the release, before you close the connection.' : messageOf(error)}`,
    },
  );
}
