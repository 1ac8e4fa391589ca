import {
  defaultPayloadConverter,
  type WorkflowInterceptorsFactory,
  type WorkflowOutboundCallsInterceptor,
} from '@temporalio/workflow';
import { FENCING_TOKEN_HEADER, FencingToken } from '../../shared/fencing-token';
import { currentPermit } from './current-permit';

/** Adds the current permit's token to what is sent to an activity. A header that stands there already is kept. */
function withToken<T extends { readonly headers: object }>(input: T): T {
  const permit = currentPermit();
  if (!permit) return input;
  const token = defaultPayloadConverter.toPayload(FencingToken.from(permit).toString());
  return { ...input, headers: { [FENCING_TOKEN_HEADER]: token, ...input.headers } };
}

const outbound: WorkflowOutboundCallsInterceptor = {
  scheduleActivity: async (input, next) => await next(withToken(input)),
  scheduleLocalActivity: async (input, next) => await next(withToken(input)),
};

/**
 * Puts the token of the innermost `withPermit` in the headers of every activity that is called inside it, for
 * `currentFencingToken()` to read there. Loaded through a worker's `interceptors.workflowModules`.
 */
export const interceptors: WorkflowInterceptorsFactory = () => ({ outbound: [outbound] });
