import { randomUUID } from 'node:crypto';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { historyToJSON } from '@temporalio/common/lib/proto-utils';
import { DefaultLogger, Runtime, Worker } from '@temporalio/worker';
import { SemaphoreClient } from '@/client';
import { permitId, queueId } from '@/shared/permit-id';
import { QUEUE_VIEW, type QueueView, RENEW, REVOKE } from '@/shared/protocol';
import * as activities from './support/activities';
import { runMain } from './support/main';
import { startServer } from './support/temporal-server';

/**
 * `pnpm record-histories`: runs each Workflow through its main paths and writes the histories to test/histories, where
 * `test/replay.test.ts` replays them on today's code. Once a version has shipped, add to them and never write them anew.
 */
const DIRECTORY = join(__dirname, '..', 'test', 'histories');

async function main(): Promise<number> {
  Runtime.install({ logger: new DefaultLogger('ERROR') });
  const env = await startServer();
  const { client } = env;
  const taskQueue = `record-${randomUUID()}`;
  const worker = await Worker.create({
    connection: env.nativeConnection,
    workflowsPath: require.resolve('../test/support/workflows'),
    activities,
    taskQueue,
  });
  await mkdir(DIRECTORY, { recursive: true });

  async function save(name: string, workflowId: string, runId?: string): Promise<void> {
    const history = await client.workflow.getHandle(workflowId, runId).fetchHistory();
    await writeFile(join(DIRECTORY, `${name}.json`), `${historyToJSON(history)}\n`);
    console.log(`${name}: ${history.events?.length} events`);
  }
  const start = async (type: string, id: string, ...args: unknown[]) =>
    await client.workflow.start(type, { workflowId: id, taskQueue, args });
  const heldRun = async (workflowId: string) => {
    for (;;) {
      const found = await client.workflow
        .getHandle(workflowId)
        .describe()
        .catch(() => undefined);
      if (found?.status.name === 'RUNNING') return found.runId;
      await delay(50);
    }
  };

  await worker.runUntil(async () => {
    // A permit through renewals and into the end of its lease, and the consumer that lost it.
    const lease = permitId({ resource: 'lease', slot: '0' });
    const loser = await start('holder', 'loser', {
      resource: 'lease',
      semaphore: { capacity: 1, lease: 1_500, renewEvery: false },
    });
    await heldRun(lease);
    await client.workflow.getHandle(lease).signal(RENEW);
    await loser.result().catch(() => undefined);
    await save('permit-renewed-then-expired', lease);
    await save('holder-lost-its-permit', 'loser');

    // A revocation with its reason.
    const revoked = permitId({ resource: 'revoked', slot: 'gpu-a' });
    const victim = await start('holder', 'victim', { resource: 'revoked', semaphore: { slots: ['gpu-a'] } });
    await heldRun(revoked);
    await client.workflow.getHandle(revoked).signal(REVOKE, { reason: 'node drain' });
    await victim.result().catch(() => undefined);
    await save('permit-revoked', revoked);
    await save('holder-revoked', 'victim');

    // A line: one consumer holds, one is parked and served, one times out, one is cancelled, the queue ends.
    const first = await start('exampleConsumer', 'first', {
      resource: 'line',
      semaphore: { capacity: 1 },
      holdMs: 3_000,
    });
    const run = await heldRun(permitId({ resource: 'line', slot: '0' }));
    const input = { resource: 'line', semaphore: { capacity: 1, recheckAfter: 1_000 }, holdMs: 0 };
    const parked = await start('holder', 'parked', input);
    const late = await start('holder', 'late', { ...input, acquire: { timeout: 700 } });
    const cancelled = await start('holder', 'cancelled', input);
    const fair = await start('holder', 'fair', { ...input, semaphore: { capacity: 1, fair: true } });
    const queue = client.workflow.getHandle(queueId('line'));
    while ((await queue.query<QueueView>(QUEUE_VIEW).catch(() => undefined))?.tickets.length !== 4) await delay(50);
    await cancelled.cancel();
    await Promise.allSettled([first, parked, late, cancelled, fair].map((handle) => handle.result()));
    await queue.result();
    await save('permit-watched', permitId({ resource: 'line', slot: '0' }), run);
    await save('consumer', 'first');
    for (const name of ['parked', 'late', 'cancelled', 'fair']) await save(`waiter-${name}`, name);
    await save('queue', queueId('line'));

    // Of two waiters, the first tries both slots and starts the line; the second tries one and stands in it.
    const two = { resource: 'two', semaphore: { capacity: 2 } };
    const holders = [0, 1].map((index) => start('holder', `holder-${index}`, { ...two, holdMs: 2_000 }));
    for (const slot of ['0', '1']) await heldRun(permitId({ resource: 'two', slot }));
    const starter = await start('holder', 'starter', { ...two, holdMs: 0 });
    await heldRun(queueId('two'));
    const joiner = await start('holder', 'joiner', { ...two, holdMs: 0 });
    await Promise.all([...(await Promise.all(holders)), starter, joiner].map((handle) => handle.result()));
    for (const name of ['starter', 'joiner']) await save(`waiter-${name}`, name);

    // What operators do: a slot is taken out of use and put back, the pool is paused and resumed, with somebody in line.
    const pool = new SemaphoreClient(client, 'operated', { capacity: 2, taskQueue });
    const operated = client.workflow.getHandle(queueId('operated'));
    await pool.resize(1);
    const drained = await heldRun(permitId({ resource: 'operated', slot: '1' }));
    const patient = await start('holder', 'patient', { resource: 'operated', semaphore: { capacity: 2 }, holdMs: 500 });
    await heldRun(permitId({ resource: 'operated', slot: '0' }));
    await pool.pause();
    const paused = await start('holder', 'paused', { resource: 'operated', semaphore: { capacity: 2 }, holdMs: 0 });
    while ((await operated.query<QueueView>(QUEUE_VIEW)).tickets.length !== 1) await delay(50);
    await patient.result();
    await pool.resume();
    await paused.result();
    await pool.resize(3);
    await pool.resize(2);
    await operated.result();
    await save('permit-drained', permitId({ resource: 'operated', slot: '1' }), drained);
    await save('queue-operated', queueId('operated'));
  });
  await env.teardown();
  return 0;
}

runMain(main);
