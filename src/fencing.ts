/**
 * Fencing, for everything outside Workflows: tokens, and guards that refuse a holder who has lost its permit. It loads
 * neither the Temporal SDK nor a database driver, so that any service in front of a protected resource can use it.
 *
 * @module
 */
export { currentFencingToken, withFencingToken } from './fencing/current-token';
export type { Admission, CountedAdmission, FenceGuard } from './fencing/guard';
export { fencingHeaders, fencingTokenOf, type RequestHeaders } from './fencing/http';
export { MemoryFence } from './fencing/memory-fence';
export { MixedTransactionsError, TransactionAbortedError, TransactionOverError } from './fencing/postgres-errors';
export { type FencedTransaction, PostgresFence, type PostgresFenceOptions } from './fencing/postgres-fence';
export type { PostgresClient, PostgresPool, PostgresQueryable } from './fencing/postgres-transaction';
export { type DescribingClient, TemporalFence } from './fencing/temporal-fence';
export {
  type ActivityAttempt,
  FENCING_TOKEN_HEADER,
  FencingError,
  FencingToken,
  type FencingTokenSource,
  FutureTokenError,
  MalformedTokenError,
  MissingTokenError,
  StaleTokenError,
  UnorderedRunIdError,
  WrongResourceError,
} from './shared/fencing-token';
export type { PermitAddress } from './shared/permit-id';
