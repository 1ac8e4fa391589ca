import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { WorkflowHandle } from '@temporalio/client';
import type { Server } from '../client/server/server';
import { WorkerQueries } from './worker-queries';

const DEADLINE_EXCEEDED = 4;
const RESOURCE_EXHAUSTED = 8;

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

/** A server that refuses so many queries, because it has too much to do. */
function busy(refusals: number) {
  const query = async () => {
    if (refusals-- <= 0) return 'answer';
    throw Object.assign(new Error('too many'), { code: RESOURCE_EXHAUSTED, details: '', metadata: {} });
  };
  return { query } as unknown as WorkflowHandle;
}

const server = { call: (make: () => Promise<unknown>) => make() } as Server;

test('while all are answered, each is asked; once one is not, one at a time finds out whether a worker is back', async () => {
  const queries = new WorkerQueries(server, 0);
  const [first, silent, next, other, elsewhere] = [true, false, true, true, true].map(workflow);
  assert.ok(first && silent && next && other && elsewhere);
  assert.equal(await queries.ask(first, 'queue', 'permit'), 'answer');
  assert.equal(await queries.ask(silent, 'queue', 'permit'), undefined);
  const both = [queries.ask(next, 'queue', 'permit'), queries.ask(other, 'queue', 'permit')];
  assert.equal(await queries.ask(elsewhere, 'another queue', 'permit'), 'answer');
  assert.deepEqual(await Promise.all(both), ['answer', undefined]);
  assert.deepEqual([silent.asked, next.asked, other.asked], [1, 1, 0]);
  assert.equal(await queries.ask(other, 'queue', 'permit'), 'answer');
});

test('a query that the server refuses for a moment is made again, within the limit of time', async () => {
  assert.equal(await new WorkerQueries(server, 2_000).ask(busy(2), 'queue', 'permit'), 'answer');
  assert.equal(await new WorkerQueries(server, 100).ask(busy(100), 'queue', 'permit'), undefined);
});
