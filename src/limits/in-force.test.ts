import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Client, type ConnectionLike } from '@temporalio/client';
import { type Looks, lookAtLimits } from './in-force';

/** gRPC's code NOT_FOUND. */
const NOT_FOUND = 5;

/** A client of a server on which nothing runs. */
function clientOfNothing(): Client {
  const call = async (_: unknown, make: () => Promise<unknown>) => await make();
  const workflowService = {
    listWorkflowExecutions: async () => ({ executions: [] }),
    describeWorkflowExecution: async () => {
      throw Object.assign(new Error('no such Workflow'), { code: NOT_FOUND, details: '', metadata: { get: () => [] } });
    },
  };
  const connection = { workflowService, withDeadline: call, withAbortSignal: call };
  return new Client({ connection: connection as unknown as ConnectionLike });
}

test('a look keeps what earlier looks have found of the same resources, and forgets the others', async () => {
  const client = clientOfNothing();
  const looks: Looks = new Map();
  const lookAt = async (...resources: string[]) => {
    const limits = resources.map((resource) => ({ resource, capacity: 1 }));
    const { seen } = await lookAtLimits(client, { version: 1, limits }, looks);
    assert.deepEqual([...seen.keys()], resources);
    return new Map(looks);
  };
  const first = await lookAt('a', 'b');
  assert.deepEqual([...first.keys()], ['a', 'b']);
  const second = await lookAt('b', 'c');
  assert.deepEqual([...second.keys()], ['b', 'c']);
  assert.equal(second.get('b'), first.get('b'));
});
