import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import type { ReportedHold } from '../../../scripts/support/holder-intervals';
import type { SemaphoreClientOptions } from '../../../src/client';
import { CliProcess } from '../../support/cli-process';
import { ClientProcess } from '../../support/client-process';
import { assertSafe, useTemporal } from '../../support/temporal';
import * as workflows from '../../support/workflows';

const temporal = useTemporal({ shared: true });

const HOLD_MS = 200;

function workflow(resource: string): Promise<unknown> {
  return temporal.client.workflow.execute(workflows.holder, {
    workflowId: `holder-${randomUUID()}`,
    taskQueue: temporal.taskQueue,
    args: [{ resource, semaphore: { capacity: 3 }, holdMs: HOLD_MS }],
  });
}

/** A process with several clients. */
async function clients(resource: string, count: number): Promise<ReportedHold[]> {
  const semaphore: SemaphoreClientOptions = { capacity: 3, taskQueue: temporal.taskQueue };
  const { address } = temporal.env;
  const started = new ClientProcess({ address, resource, semaphore, clients: count, holdMs: HOLD_MS });
  assert.equal(await started.exit, 0);
  return started.steps.flatMap(({ step, runId = '', atMs }) => {
    if (step !== 'acquired') return [];
    const release = started.steps.find((it) => it.step === 'releasing' && it.runId === runId);
    return { runId, fromMs: atMs, toMs: release?.atMs };
  });
}

/** A shell command. It knows of its permit from its first line to its last. */
async function command(resource: string): Promise<ReportedHold> {
  const script = `date +%s%3N; echo $PERMIT_RUN_ID; sleep ${HOLD_MS / 1_000}; date +%s%3N`;
  const to = ['--address', temporal.env.address, '--task-queue', temporal.taskQueue];
  const cli = new CliProcess(['run', resource, '--capacity', '3', ...to, '--', 'sh', '-c', script]);
  assert.equal(await cli.exit, 0, cli.stderr);
  const [from, runId = '', to_] = cli.stdout.split('\n');
  return { runId, fromMs: Number(from), toMs: Number(to_) };
}

test('10 Workflows, 10 clients in two processes and 5 shell commands share 3 permits', async () => {
  const resource = temporal.resource();
  const [, one, two, commands] = await Promise.all([
    Promise.all(Array.from({ length: 10 }, () => workflow(resource))),
    clients(resource, 5),
    clients(resource, 5),
    Promise.all(Array.from({ length: 5 }, () => command(resource))),
  ]);
  const reports = [...one, ...two, ...commands];
  assert.equal(reports.length, 15);
  const holds = await assertSafe(temporal.client, resource, 3, reports);
  assert.equal(holds.length, 25);
});
