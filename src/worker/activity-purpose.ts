import type { ActivityInterceptorsFactory } from '@temporalio/worker';
import { withPurpose } from '../client/holder/purpose-here';
import { MAX_PURPOSE_LENGTH } from '../shared/options';

type Info = Parameters<ActivityInterceptorsFactory>[0]['info'];

/**
 * Gives the permits that an activity acquires with a `SemaphoreClient` their purpose, unless it names one. Their holder is the worker's
 * client, whose identity tells operators neither the activity nor its Workflow.
 */
export const activityPurpose: ActivityInterceptorsFactory = ({ info }) => ({
  inbound: { execute: (input, next) => withPurpose(purposeOf(info), () => next(input)) },
});

/** `train of nightly-7`; of an activity that no Workflow has started, `train (activity nightly-7)`. */
function purposeOf({
  activityType,
  activityId,
  workflowExecution,
}: Pick<Info, 'activityType' | 'activityId' | 'workflowExecution'>): string {
  const of = workflowExecution ? `of ${workflowExecution.workflowId}` : `(activity ${activityId})`;
  return `${activityType} ${of}`.slice(0, MAX_PURPOSE_LENGTH);
}
