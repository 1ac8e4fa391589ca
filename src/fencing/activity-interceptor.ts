import { ApplicationFailure, defaultPayloadConverter } from '@temporalio/common';
import type { ActivityInterceptorsFactory, WorkerInterceptors } from '@temporalio/worker';
import {
  FENCING_SCHEDULED_HEADER,
  FENCING_TOKEN_HEADER,
  FencingError,
  FencingToken,
  StaleTokenError,
} from '../shared/fencing-token';
import { withFencingToken } from './current-token';
import { entryPath } from './entry-path';

/**
 * Gives an activity the token in its headers, as its `currentFencingToken()`, with the number of its attempt. When a fence refuses
 * the token, the activity fails with a failure of the same type name. That is non-retryable, since a retry would send the same old
 * token, unless only a later attempt of another activity that ran at the same time was admitted.
 */
export const fencingActivityInterceptor: ActivityInterceptorsFactory = ({ info }) => ({
  inbound: {
    async execute(input, next) {
      try {
        const header = input.headers[FENCING_TOKEN_HEADER];
        if (!header) return await next(input);
        const permit = FencingToken.parse(defaultPayloadConverter.fromPayload(header));
        const scheduled = input.headers[FENCING_SCHEDULED_HEADER];
        const scheduledMs = scheduled && defaultPayloadConverter.fromPayload<number>(scheduled);
        const token = scheduledMs === undefined ? permit : permit.of({ scheduledMs, attempt: info.attempt });
        return await withFencingToken(token, () => next(input));
      } catch (error) {
        if (!(error instanceof FencingError)) throw error;
        throw ApplicationFailure.create({
          message: error.message,
          type: error.name,
          nonRetryable: !(error instanceof StaleTokenError && error.passes),
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
  /** Where it lies is asked for only when it is used: the command line has this module in a bundle of its own. */
  get workflowModules() {
    return [entryPath('fencing-workflow')];
  },
} satisfies WorkerInterceptors;
