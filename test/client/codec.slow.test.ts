import assert from 'node:assert/strict';
import { randomBytes, randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { Client } from '@temporalio/client';
import type { DataConverter } from '@temporalio/common';
import { bundleWorkflowCode, DefaultLogger, Worker } from '@temporalio/worker';
import { PermitLostError, SemaphoreClient } from '../../src/client';
import { listHolders, StaleOverrideError } from '../../src/operator';
import { permitId, queueId } from '../../src/shared/permit-id';
import { REVOKED } from '../../src/shared/protocol';
import { createPermitWorker } from '../../src/worker';
import { AesGcmCodec } from '../support/aes-gcm-codec';
import { CliProcess } from '../support/cli-process';
import { assertFails, untilAt } from '../support/holders';
import { operatorOf } from '../support/operators';
import { send } from '../support/strangers';
import { eventually, until, useTemporal } from '../support/temporal';
import * as workflows from '../support/workflows';

const temporal = useTemporal({ shared: true });

const failureConverterPath = require.resolve('../support/failure-converter');
const dataConverter: DataConverter = { payloadCodecs: [new AesGcmCodec(randomBytes(32))], failureConverterPath };

/** Everything of a raw answer of the server that has the text in it, by its path. */
function findings(value: unknown, text: string, path = ''): string[] {
  if (typeof value === 'string') return value.includes(text) ? [path] : [];
  if (value instanceof Uint8Array) return Buffer.from(value).includes(text) ? [path] : [];
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, inner]) => findings(inner, text, `${path}.${key}`));
}

/** What the server has of these Workflows: the histories of all their runs, and what it says of them. */
async function raw(client: Client, workflowIds: readonly string[]): Promise<unknown[]> {
  const { namespace } = client.options;
  const service = client.workflowService;
  const query = workflowIds.map((id) => `WorkflowId = ${JSON.stringify(id)}`).join(' OR ');
  const { executions } = await service.listWorkflowExecutions({ namespace, query });
  const answers = executions.map(async ({ execution }) => [
    await service.getWorkflowExecutionHistory({ namespace, execution }),
    await service.describeWorkflowExecution({ namespace, execution }),
  ]);
  return [executions, ...(await Promise.all(answers))];
}

test('with an encrypting codec everything works, and the server can read neither purposes nor reasons', async () => {
  const resource = temporal.resource();
  const { connection, nativeConnection } = temporal.env;
  const [taskQueue, permits] = [`app-${randomUUID()}`, `permits-${randomUUID()}`];
  const workflowBundle = await bundleWorkflowCode({
    workflowsPath: require.resolve('../support/workflows'),
    failureConverterPath,
    logger: new DefaultLogger('ERROR'),
  });
  const workers = [
    await Worker.create({ connection: nativeConnection, taskQueue, workflowBundle, dataConverter }),
    await createPermitWorker({ connection: nativeConnection, taskQueue: permits, dataConverter }),
  ];
  const running = workers.map((worker) => worker.run());
  const client = new Client({ connection, dataConverter });
  const pool = new SemaphoreClient(client, resource, { capacity: 1, taskQueue: permits });

  const permit = await pool.acquire({ purpose: 'SECRET by hand' });
  const holder = await client.workflow.start(workflows.holder, {
    workflowId: `holder-${randomUUID()}`,
    taskQueue,
    args: [
      {
        resource,
        semaphore: { capacity: 1, taskQueue: permits },
        acquire: { purpose: 'SECRET work', priority: { fairnessKey: 'SECRET team' } },
      },
    ],
  });
  await eventually(async () => {
    const { slots, waiters } = await operatorOf(pool).inspect();
    assert.equal(slots[0]?.permit?.purpose, 'SECRET by hand');
    assert.ok(slots[0]?.permit?.leaseDeadline);
    assert.deepEqual(
      waiters.map(({ fairnessKey }) => fairnessKey),
      ['SECRET team'],
    );
  });
  const waiting = pool.acquire({ purpose: 'SECRET later' });
  await eventually(async () => assert.equal((await operatorOf(pool).inspect()).waiters.length, 2));
  const waiter = (await operatorOf(pool).inspect()).waiters[1]?.workflowId ?? assert.fail();

  await operatorOf(pool).revoke('0', { runId: permit.runId, reason: 'SECRET reason' });
  await until(() => permit.signal.aborted);
  assert.ok(permit.signal.reason instanceof PermitLostError);
  assert.equal(permit.signal.reason.reason, 'SECRET reason');
  await untilAt(holder, 'holding');
  await eventually(async () => {
    const held = (await listHolders(client)).find((it) => it.resource === resource);
    assert.equal(held?.permit.purpose, 'SECRET work');
  });
  const pause = await operatorOf(pool).pause({ reason: 'SECRET pause' });
  await operatorOf(pool).revoke('0', { reason: 'SECRET again' });
  await assertFails(holder.result(), 'PermitLostError', /SECRET again/);
  await eventually(async () => {
    const { slots, override } = await operatorOf(pool).inspect();
    assert.deepEqual([slots[0]?.state, override], ['drained', pause]);
  });
  await assert.rejects(operatorOf(pool).resume({ ifVersion: 0 }), (error) => {
    assert.ok(error instanceof StaleOverrideError);
    assert.deepEqual(error.current, pause);
    return true;
  });
  await operatorOf(pool).resume();
  await (await waiting).release();
  await eventually(async () => {
    const { recent } = await operatorOf(pool).inspect();
    assert.deepEqual(
      recent.map(({ purpose, outcome }) => [purpose, outcome]),
      [
        ['SECRET later', 'released'],
        ['SECRET work', 'revoked'],
        ['SECRET by hand', 'revoked'],
      ],
    );
  });

  const seen = await raw(client, [holder.workflowId, permitId({ resource, slot: '0' }), queueId(resource), waiter]);
  assert.deepEqual(findings(seen, 'SECRET'), []);
  assert.ok(findings(seen, resource).length > 10, 'IDs are readable, and this would have found more');
  assert.ok(seen.length >= 7, 'all runs were looked at');
  await eventually(async () => assert.equal((await operatorOf(pool).inspect()).queue, 'none'));
  for (const worker of workers) worker.shutdown();
  await Promise.all(running);
});

test('with a data converter, an encrypted pool is run, seen and operated', async () => {
  const resource = temporal.resource();
  const taskQueue = `permits-${randomUUID()}`;
  const key = ['--data-converter', require.resolve('../support/encrypting-converter')];
  const to = ['--address', temporal.env.address, '--task-queue', taskQueue];
  const worker = new CliProcess(['worker', ...to, ...key]);
  await worker.says(/(permits run on)/);
  const command = ['--', 'sh', '-c', 'echo running; exec sleep 60'];
  const holder = new CliProcess(['run', resource, '--capacity', '1', '--purpose', 'SECRET', ...to, ...key, ...command]);
  await holder.says(/(running)/);
  const ls = ['ls', resource, '--capacity', '1', ...to];
  const [seen, blind] = [new CliProcess([...ls, ...key]), new CliProcess(ls)];
  assert.deepEqual([await seen.exit, await blind.exit], [0, 0]);
  assert.match(seen.stdout, / SECRET *\n/);
  assert.match(
    blind.stdout,
    /: 1 of 1 held, [\s\S]* 0 +held +unknown .* \? *\n/,
    'without the key: held, and nobody knows by whom',
  );
  assert.doesNotMatch(blind.stdout + blind.stderr, /SECRET/);
  const revoked = new CliProcess(['revoke', resource, '0', '--reason', 'node drain', '--yes', ...to, ...key]);
  assert.equal(await revoked.exit, 0, revoked.stderr);
  assert.equal(await holder.exit, 143);
  assert.match(holder.stderr, /an operator revoked it \(node drain\)/);
  worker.signal('SIGTERM');
  assert.equal(await worker.exit, 0);
  const missing = new CliProcess(['ls', '--data-converter', 'no-such-module.js']);
  assert.equal(await missing.exit, 64);
  assert.match(missing.stderr, /--data-converter: expected a module that exports "dataConverter", but "no-such/);
});

test("a signal that a codec throws on stops a user's Workflow until somebody terminates it; then its slot passes on", async () => {
  const resource = temporal.resource();
  const [taskQueue, semaphore] = [`app-${randomUUID()}`, { capacity: 1 }];
  const options = { connection: temporal.env.nativeConnection, taskQueue, shutdownForceTime: '1s' } as const;
  const worker = await Worker.create({ ...options, workflowBundle: temporal.bundle, dataConverter });
  const running = worker.run();
  const client = new Client({ connection: temporal.env.connection, dataConverter });
  const start = (name: string) =>
    client.workflow.start(workflows.holder, {
      workflowId: `${name}-${resource}`,
      taskQueue,
      args: [{ resource, semaphore }],
    });
  const holder = await start('holder');
  await untilAt(holder, 'holding');
  const next = await start('next');
  await send(client, holder.workflowId, REVOKED, { encoding: 'binary/encrypted', data: 'x'.repeat(50) });
  await until(async () => ((await holder.describe()).raw.pendingWorkflowTask?.attempt ?? 0) > 1);
  await holder.terminate();
  await untilAt(next, 'holding');
  await next.signal(workflows.finish);
  await next.result();
  worker.shutdown();
  await running;
});
