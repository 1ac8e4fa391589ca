import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { WorkflowHandle } from '@temporalio/client';
import type { Server } from '../server';
import { WorkerQueries } from './worker-queries';

const DEADLINE_EXCEEDED = 4;

/** It counts the queries, and answers them or lets them time out. */
function workflow(isAnswered: boolean) {
  const handle = { asked: 0 };
  const query = async () => {
    handle.asked++;
    if (isAnswered) return 'answer';
    throw Object.assign(new Error('too late'), { code: DEADLINE_EXCEEDED, details: '', metadata: {} });
  };
  return Object.assign(handle, { query }) as unknown as WorkflowHandle & { asked: number };
}

const server = { call: (make: () => Promise<unknown>) => make() } as Server;

test('while all are answered, each is asked, however long that takes; once one is not, the time counts', async () => {
  const queries = new WorkerQueries(server, 0);
  const [first, second, silent, last] = [workflow(true), workflow(true), workflow(false), workflow(true)];
  assert.equal(await queries.ask(first, 'queue', 'permit'), 'answer');
  assert.equal(await queries.ask(second, 'queue', 'permit'), 'answer');
  assert.equal(await queries.ask(silent, 'queue', 'permit'), undefined);
  assert.equal(await queries.ask(last, 'queue', 'permit'), undefined);
  assert.deepEqual([silent.asked, last.asked], [1, 0]);
});
