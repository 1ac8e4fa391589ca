import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import type { NoAnswerError, PermitTimeoutError } from '../../src/client';

export const taskQueueOfNobody = () => `nobody-${randomUUID()}`;

export const nobodyPolls = (taskQueue: string) => `no worker polls task queue "${taskQueue}"`;

/** That the error is of that class, and names the task queue which nobody polls. */
export const isUnpolled = (taskQueue: string, type: typeof NoAnswerError | typeof PermitTimeoutError) => {
  return (error: unknown) => {
    assert.ok(error instanceof type, String(error));
    assert.equal(error.unpolled, taskQueue);
    assert.ok(error.message.includes(nobodyPolls(taskQueue)), error.message);
    assert.ok(!error.message.includes('all slots are held'), error.message);
    return true;
  };
};
