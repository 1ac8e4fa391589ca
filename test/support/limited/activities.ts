import { Context } from '@temporalio/activity';
import { currentFencingToken } from '../../../src/fencing';

/** The fencing token of the Workflow that calls it, if that has one. */
export async function tokenHere(): Promise<string> {
  const { workflowType } = Context.current().info;
  return workflowType === 'trainModel' ? String(currentFencingToken()) : 'none';
}

/** The fencing token of its own permit. */
export async function callVendor(): Promise<string> {
  return String(currentFencingToken());
}
