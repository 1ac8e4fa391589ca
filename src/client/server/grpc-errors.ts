import {
  ApplicationFailure,
  isGrpcServiceError,
  QueryNotRegisteredError,
  QueryRejectedError,
  ServiceError,
  WorkflowNotFoundError,
  WorkflowUpdateFailedError,
} from '@temporalio/client';
import { JUST_MOVED } from '../../shared/protocol';
import { messageOf } from './errors';

/** gRPC's codes of errors that a retry may overcome. None of them says anything about a slot. */
const TRANSIENT = new Set([
  1, // CANCELLED: by a proxy or a closing connection; a caller that aborts makes no retry
  2, // UNKNOWN
  4, // DEADLINE_EXCEEDED
  8, // RESOURCE_EXHAUSTED: slow down
  10, // ABORTED
  13, // INTERNAL: broken streams come as this too
  14, // UNAVAILABLE
]);

/** gRPC's code for a call whose time was up. */
const DEADLINE_EXCEEDED = 4;

const FAILED_PRECONDITION = 9;

/** Whether this is the error of a closed connection: gRPC's, or that of a `NativeConnection`. */
export function isClosedConnection(error: unknown): boolean {
  return /Channel has been shut down|Client already closed|The connection of this client was closed/.test(
    messageOf(error),
  );
}

/** Whether a retry may help: overload, a broken connection, a time-out. */
export function isTransient(error: unknown): boolean {
  if (isClosedConnection(error)) return false;
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    if (isGrpcServiceError(cause) && TRANSIENT.has(cause.code)) return true;
  }
  return false;
}

/** The Workflow of a query is gone or paused, or does not know the query. */
export function isNotThere(error: unknown): boolean {
  if (error instanceof QueryRejectedError) return true; // we refuse no status, and the server only refuses that of a paused one
  return (error instanceof QueryNotRegisteredError && !hasJustMoved(error)) || error instanceof WorkflowNotFoundError;
}

/** The error with which the server refuses an update of a paused Workflow, and a query whose task queue no worker has polled for long. */
export function isFailedPrecondition(error: unknown): boolean {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    if (isGrpcServiceError(cause) && cause.code === FAILED_PRECONDITION) return true;
  }
  return false;
}

/** The failure with which a Workflow rejected an update. */
export function refusalOf(error: unknown): ApplicationFailure | undefined {
  if (!(error instanceof WorkflowUpdateFailedError)) return undefined;
  return error.cause instanceof ApplicationFailure ? error.cause : undefined;
}

/** An update or a query came while another worker took its Workflow over. It can be sent again at once. */
export function hasJustMoved(error: unknown): boolean {
  // The server reports every failed query as "not registered".
  if (error instanceof QueryNotRegisteredError) return error.message.includes(JUST_MOVED);
  return refusalOf(error)?.type === JUST_MOVED;
}

/** No worker has answered a query. */
export function isSilence(error: unknown): boolean {
  if (isNotThere(error) || hasJustMoved(error)) return true;
  return isTransient(error) || isFailedPrecondition(error);
}

const CLOSED =
  'The connection of this client was closed. Make a new connection, and close it only when no permit is held or awaited any more.';

/** The error of a call on a connection that was closed. */
export function closedConnection(cause?: unknown): ServiceError {
  return new ServiceError(CLOSED, cause === undefined ? undefined : { cause: cause as Error });
}

/** The error for a call that the SDK has not ended at its deadline, in the form in which the SDK would throw it. */
export function deadlineExceeded(withinMs: number): ServiceError {
  const details = `the server has not answered within ${Math.ceil(withinMs)} ms`;
  const cause = Object.assign(new Error(`${DEADLINE_EXCEEDED} DEADLINE_EXCEEDED: ${details}`), {
    code: DEADLINE_EXCEEDED,
    details,
    metadata: {},
  });
  return new ServiceError('The server did not answer in time', { cause });
}
