import { ApplicationFailure, defaultPayloadConverter } from '@temporalio/common';
import type { ActivityInterceptorsFactory, WorkerInterceptors } from '@temporalio/worker';
import { FencingError } from '../shared/fencing-errors';
import { FENCING_TOKEN_HEADER, FencingToken } from '../shared/fencing-token';
import { withFencingToken } from './current-token';

/**
 * Gives an activity the token in its headers, as its `currentFencingToken()`. When a fence refuses the token, the activity
 * fails with a non-retryable failure of the same type name: a retry would send the same old token.
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
 * The interceptors of both sides that carry the token. Give them to the workers of the Workflows that call `withPermit`,
 * and to the workers of the activities that these call, beside your own interceptors. With a prebuilt Workflow bundle, name its `workflowModules` to
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
