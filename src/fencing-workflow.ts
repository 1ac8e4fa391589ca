/**
 * The Workflow side of fencing, for the Workflow sandbox: name this module in a worker's `interceptors.workflowModules`
 * (`fencingInterceptors` of `temporal-semaphore/fencing-worker` does it for you), and activities that are called inside
 * `withPermit` carry its token.
 *
 * @module
 */
import './shared/oldest-sdk';

export {
  type ActivityAttempt,
  FENCING_TOKEN_HEADER,
  FencingToken,
  type FencingTokenSource,
} from './shared/fencing-token';
export { interceptors } from './workflows/holder/fencing-interceptor';
export { currentPermit } from './workflows/holder/hold';
