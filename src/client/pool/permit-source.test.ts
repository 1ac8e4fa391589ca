import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Client } from '@temporalio/client';
import { resolveSemaphore } from '../../shared/options';
import { ClientMetrics } from '../holder/metrics';
import { PermitSource } from './permit-source';

/** A client of a server that says this of the queue, whom nobody may query. */
function clientOf(status: { code: number; name: string }): Client {
  const call = async (_: unknown, make: () => Promise<unknown>) => await make();
  const handle = { describe: async () => ({ runId: 'r', historyLength: 4, status }) };
  const client = {
    connection: {},
    options: { namespace: 'default', identity: 'me' },
    workflow: { getHandle: () => handle },
    withAbortSignal: call,
    withDeadline: call,
  };
  return client as unknown as Client;
}

test('a pool believes that somebody may wait while the queue is paused on the server, and that nobody does once it has ended', async () => {
  const waiting = async (name: string, code: number) => {
    const semaphore = resolveSemaphore('gpu', { capacity: 1 }, { leaseMs: 30_000 });
    const source = new PermitSource(clientOf({ code, name }), semaphore, new ClientMetrics());
    return (await source.look())?.tickets.length;
  };
  assert.equal(await waiting('PAUSED', 8), 1);
  assert.equal(await waiting('UNKNOWN', 8), 1);
  assert.equal(await waiting('COMPLETED', 2), 0);
});
