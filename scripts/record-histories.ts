import { randomUUID } from 'node:crypto';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { Client } from '@temporalio/client';
import { historyToJSON } from '@temporalio/common/lib/proto-utils';
import { DefaultLogger, Runtime, Worker } from '@temporalio/worker';
import { Operator } from '@/operator';
import { permitId, queueId } from '@/shared/permit-id';
import type { AwaitTurnInput } from '@/shared/protocol';
import { type PermitRef, QUEUE_VIEW, type QueueView, RENEW, REVOKE } from '@/shared/protocol';
import * as activities from './support/activities';
import { runMain } from './support/main';
import { startServer } from './support/temporal-server';

/**
 * `pnpm record-histories`: runs each Workflow through its main paths and writes the histories to test/histories, where
 * `test/workflows/replay.test.ts` replays them on today's code. Once a version has shipped, add to them and never write them anew.
 */
const DIRECTORY = join(__dirname, '..', 'test', 'histories');

async function main(): Promise<number> {
  Runtime.install({ logger: new DefaultLogger('ERROR') });
  await mkdir(DIRECTORY, { recursive: true });
  await record([], recordMainPaths);
  // A queue of 60 events is to continue as new here; elsewhere that takes thousands.
  await record(['limit.historyCount.suggestContinueAsNew=60'], recordContinuedQueue);
  return 0;
}

/** A server and a worker of its own for some recordings, and what they need of them. */
async function record(dynamicConfig: string[], run: (recorder: Recorder) => Promise<void>): Promise<void> {
  const env = await startServer({ dynamicConfig });
  try {
    const taskQueue = `record-${randomUUID()}`;
    const worker = await Worker.create({
      connection: env.nativeConnection,
      workflowsPath: require.resolve('../test/support/workflows'),
      activities,
      taskQueue,
    });
    await worker.runUntil(() => run(new Recorder(env.client, taskQueue)));
  } finally {
    await env.teardown();
  }
}

class Recorder {
  constructor(
    readonly client: Client,
    readonly taskQueue: string,
  ) {}

  readonly save = async (name: string, workflowId: string, runId?: string): Promise<void> => {
    const history = await this.client.workflow.getHandle(workflowId, runId).fetchHistory();
    await writeFile(join(DIRECTORY, `${name}.json`), `${historyToJSON(history)}\n`);
    console.log(`${name}: ${history.events?.length} events`);
  };

  readonly start = async (type: string, workflowId: string, ...args: unknown[]) =>
    await this.client.workflow.start(type, { workflowId, taskQueue: this.taskQueue, args });

  readonly heldRun = async (workflowId: string): Promise<string> => {
    for (;;) {
      const found = await this.client.workflow
        .getHandle(workflowId)
        .describe()
        .catch(() => undefined);
      if (found?.status.name === 'RUNNING') return found.runId;
      await delay(50);
    }
  };

  readonly untilWaiting = async (resource: string, count: number): Promise<QueueView> => {
    const queue = this.client.workflow.getHandle(queueId(resource));
    for (;;) {
      const view = await queue.query<QueueView>(QUEUE_VIEW).catch(() => undefined);
      if (view?.tickets.length === count) return view;
      await delay(50);
    }
  };
}

async function recordMainPaths({ client, taskQueue, save, start, heldRun, untilWaiting }: Recorder): Promise<void> {
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

  // A permit that outlives its holder, for its pace.
  const paced = permitId({ resource: 'paced', slot: '0' });
  const semaphore = { capacity: 1, pace: { every: 2_000 } };
  const quick = await start('holder', 'quick', { resource: 'paced', semaphore, holdMs: 0 });
  await quick.result();
  await client.workflow.getHandle(paced).result();
  await save('permit-paced', paced);
  await save('holder-paced', 'quick');

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
  await untilWaiting('line', 4);
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

  // What operators do: a slot is taken out of use and put back, the resource is paused and resumed, with somebody in line.
  const operator = new Operator(client, 'operated', { capacity: 2, taskQueue });
  const operated = client.workflow.getHandle(queueId('operated'));
  await operator.resize(1);
  const drained = await heldRun(permitId({ resource: 'operated', slot: '1' }));
  const patient = await start('holder', 'patient', { resource: 'operated', semaphore: { capacity: 2 }, holdMs: 500 });
  await heldRun(permitId({ resource: 'operated', slot: '0' }));
  await operator.pause();
  const paused = await start('holder', 'paused', { resource: 'operated', semaphore: { capacity: 2 }, holdMs: 0 });
  await untilWaiting('operated', 1);
  await patient.result();
  await operator.resume();
  await paused.result();
  await operator.resize(3);
  await operator.resize(2);
  await operated.result();
  await save('permit-drained', permitId({ resource: 'operated', slot: '1' }), drained);
  await save('queue-operated', queueId('operated'));

  // A permit that outlives its first holder, and who adopts it.
  const leaver = await start('leaver', 'leaver', { resource: 'adopted', semaphore: { capacity: 1 } });
  const ref = (await leaver.result()) as PermitRef;
  const adopter = await start('adopter', 'adopter', ref, 300);
  while ((await adopter.query<{ at: string }>('stage').catch(() => undefined))?.at !== 'holding') await delay(50);
  await delay(1_000); // a renewal
  await adopter.signal('finish');
  await adopter.result();
  await save('leaver', 'leaver');
  await save('adopter', 'adopter');
  await save('permit-adopted', ref.workflowId, ref.runId);

  // Who waits for a client: one is asked, answered and served, one takes up its place after a miss, one is cancelled.
  const keeper = await start('holder', 'keeper', { resource: 'clients', semaphore: { capacity: 1 } });
  await heldRun(permitId({ resource: 'clients', slot: '0' }));
  const wait = (id: string, missed?: string) =>
    start('awaitTurnWorkflow', `waiter-${id}`, {
      resource: 'clients',
      ticket: { id, slots: 1, sinceMs: Date.now() },
      waitMs: 60_000,
      recheckAfterMs: 1_000,
      missed,
    } satisfies AwaitTurnInput);
  const waits = [await wait('served'), await wait('missed', '0'), await wait('cancelled')];
  await untilWaiting('clients', 3);
  await delay(2_500); // an answer
  await waits[2]?.cancel();
  await untilWaiting('clients', 2);
  await keeper.signal('finish');
  await Promise.allSettled(waits.map((handle) => handle.result()));
  for (const name of ['served', 'missed', 'cancelled']) await save(`await-turn-${name}`, `waiter-${name}`);
}

async function recordContinuedQueue({ client, save, start, heldRun }: Recorder): Promise<void> {
  const pool = { resource: 'long', semaphore: { capacity: 1, fair: true } };
  const first = await start('holder', 'long-first', pool);
  await heldRun(permitId({ resource: 'long', slot: '0' }));
  const waiters = [];
  for (let count = 0; count < 12; count++) {
    waiters.push(await start('holder', `long-${count}`, { ...pool, holdMs: 0 }));
    await delay(100);
  }
  const queue = client.workflow.getHandle(queueId('long'));
  await first.signal('finish');
  await Promise.all(waiters.map((handle) => handle.result()));
  await queue.result();
  const runs = [];
  for await (const { runId, startTime } of client.workflow.list({ query: `WorkflowId = "${queueId('long')}"` })) {
    runs.push({ runId, atMs: startTime.getTime() });
  }
  runs.sort((a, b) => a.atMs - b.atMs);
  await save('queue-first-run', queueId('long'), runs[0]?.runId);
  await save('queue-second-run', queueId('long'), runs[1]?.runId);
}

runMain(main);
