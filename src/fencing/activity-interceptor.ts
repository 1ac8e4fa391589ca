import { ApplicationFailure, defaultPayloadConverter } from '@temporalio/common';
import type { ActivityInterceptorsFactory, WorkerInterceptors } from '@temporalio/worker';
import { FencingError } from '../shared/fencing-errors';
import { FENCING_TOKEN_HEADER, FencingToken } from '../shared/fencing-token';
import { withFencingToken } from './current-token';

/**
 * Gives an activity the token that its headers carry as its `currentFencingToken()`, and makes a refusal by a fence a
 * non-retryable failure of the same type name: the token does not get younger by trying again.
 */
export const fencingActivityInterceptor: ActivityInterceptorsFactory = () => ({
  inbound: {
    async execute(input, next) {
      try {
        const header = input.headers[FENCING_TOKEN_HEADER];
        if (!header) return await next(input);
        const token = FencingToken.parse(defaultPayloadConverter.fromPayload(header));
        return await withFencingToken(token, () => next(input));
      } catch (error) {
        if (!(error instanceof FencingError)) throw error;
        throw ApplicationFailure.create({
          message: error.message,
          type: error.name,
          nonRetryable: true,
          cause: error,
        });
      }
    },
  },
});

/**
 * Both sides of carrying the token: give it to the workers of the Workflows that call `withPermit` and of the activities
 * they call, beside your own interceptors. With a prebuilt Workflow bundle, name its `workflowModules` to
 * `bundleWorkflowCode`'s `workflowInterceptorModules` too.
 *
 * @example
 * ```ts
 * const worker = await Worker.create({ taskQueue, workflowsPath, activities, interceptors: fencingInterceptors });
 * ```
 */
export const fencingInterceptors = {
  activity: [fencingActivityInterceptor],
  workflowModules: [require.resolve('../fencing-workflow')],
} satisfies WorkerInterceptors;
