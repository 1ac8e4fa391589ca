import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Client, WorkflowFailedError } from '@temporalio/client';
import { Worker } from '@temporalio/worker';
import { fencingInterceptors } from 'temporal-semaphore/fencing-worker';
import { diesWithUs } from '../../scripts/support/dies-with-us';
import { aborted, runMain } from '../../scripts/support/main';
import { type Postgres, startPostgres } from '../../scripts/support/postgres/server';
import { startServer, type TemporalServer } from '../../scripts/support/temporal-server';
import { bundleExample } from '../../scripts/support/workflow-bundles';
import { fence, type Report } from './activities';
import type { ConsumerOptions } from './consumer';
import { quiet } from './quiet';
import type { appendLines } from './workflows';

async function main(interrupt: AbortSignal): Promise<number> {
  quiet();
  const directory = await mkdtemp(join(tmpdir(), 'fenced-ledger-'));
  const temporal = await startServer();
  try {
    const codePath = join(directory, 'workflows.js');
    await writeFile(codePath, await bundled());
    const postgres = await startPostgres();
    try {
      await run(temporal, postgres, codePath, interrupt);
      return 0;
    } finally {
      await postgres.stop();
    }
  } finally {
    await temporal.teardown();
    await rm(directory, { recursive: true });
  }
}

/** Each of the three workers would take seconds to bundle them itself. */
async function bundled(): Promise<string> {
  const { code } = await bundleExample({
    workflowsPath: require.resolve('./workflows'),
    workflowInterceptorModules: fencingInterceptors.workflowModules,
  });
  return code;
}

async function run(
  temporal: TemporalServer,
  postgres: Postgres,
  codePath: string,
  interrupt: AbortSignal,
): Promise<void> {
  const { address } = temporal;
  await fence.migrate(postgres.pool);
  await postgres.pool.query('CREATE TABLE ledger (id serial, epoch bigint, line text)');

  // The permits run apart from the consumers: when a consumer stops, its permit's lease still runs out.
  const permits = await Worker.create({
    connection: temporal.nativeConnection,
    taskQueue: 'permits',
    workflowBundle: { codePath },
  });
  const consumers: ChildProcess[] = [];
  await permits.runUntil(async () => {
    try {
      for (const name of ['alice', 'bob']) {
        consumers.push(await startConsumer({ name, address, codePath, postgres: postgres.connection }));
      }
      const [alice, bob] = consumers;
      if (alice && bob) await Promise.race([story(temporal.client, postgres, alice, bob), aborted(interrupt)]);
    } finally {
      // A stopped process handles SIGTERM only after SIGCONT.
      for (const signal of ['SIGCONT', 'SIGTERM'] as const) for (const consumer of consumers) consumer.kill(signal);
      await Promise.all(consumers.map(async (consumer) => consumer.exitCode ?? (await once(consumer, 'exit'))));
    }
  });
}

async function story(client: Client, postgres: Postgres, alice: ChildProcess, bob: ChildProcess): Promise<void> {
  const append = async (name: string) =>
    await client.workflow.start<typeof appendLines>('appendLines', {
      workflowId: `append-${name}`,
      taskQueue: name,
      args: [[`${name} 1`, `${name} 2`]],
    });

  const hers = await append('alice');
  await reported(alice, 'alice 2', 'preparing');
  alice.kill('SIGSTOP');
  say('alice has written a line, and is stopped while she prepares the next.');

  const his = await append('bob');
  say('bob asks for the permit.');
  await reported(bob, 'bob 1', 'written');
  say("alice's lease has run out: bob has got the permit, and written.");

  const refused = reported(alice, 'alice 2', 'refused');
  alice.kill('SIGCONT');
  say('alice goes on, and writes what she has prepared.');
  say(`Refused: ${await refused}`);
  await hers.result().catch((error: unknown) => {
    say(`Her Workflow learns of it: ${error instanceof WorkflowFailedError ? error.cause?.message : error}`);
  });
  await his.result();

  const { rows } = await postgres.pool.query('SELECT epoch, line FROM ledger ORDER BY id');
  say(`The ledger: ${rows.map(({ epoch, line }) => `${line} (epoch ${epoch})`).join(', ')}`);
}

async function startConsumer(options: ConsumerOptions): Promise<ChildProcess> {
  const consumer = diesWithUs(
    fork(require.resolve('./consumer'), [JSON.stringify(options)], { execArgv: ['--import', 'tsx'] }),
  );
  await once(consumer, 'message');
  return consumer;
}

/** Resolves when the consumer reports this event of the line. For `refused`, it resolves with the reason. */
async function reported(consumer: ChildProcess, line: string, event: Report['event']): Promise<string | undefined> {
  for (;;) {
    const [report] = (await once(consumer, 'message')) as [Report];
    if (report.line === line && report.event === event) return report.event === 'refused' ? report.why : undefined;
  }
}

function say(line: string): void {
  console.log(`${(performance.now() / 1_000).toFixed(1).padStart(5)} s  ${line}`);
}

runMain(main);
