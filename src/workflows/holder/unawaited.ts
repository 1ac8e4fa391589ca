import { log, type WorkflowInternalsInterceptor } from '@temporalio/workflow';

/** The `withPermit`s that have not ended: the resources of each. */
const underWay = new Set<readonly string[]>();

/** Notes that a `withPermit` of these resources has begun. @returns a function that notes that it has ended */
export function begun(...resources: string[]): () => void {
  underWay.add(resources);
  return () => underWay.delete(resources);
}

/**
 * Warns of a Workflow that returns while a `withPermit` goes on. The permit ends with the Workflow, so the function under it is cut off
 * without an error.
 */
export const unawaitedWarning: WorkflowInternalsInterceptor = {
  concludeActivation(input, next) {
    const isOver = input.commands.some(({ completeWorkflowExecution }) => completeWorkflowExecution);
    const resources = new Set(isOver ? [...underWay].flat() : []);
    if (resources.size > 0) {
      const which = [...resources].map((resource) => `"${resource}"`).join(', ');
      log.warn(
        `This Workflow has returned before its withPermit of ${which}: the rest of that call is cut off. Await it.`,
      );
    }
    return next(input);
  },
};
