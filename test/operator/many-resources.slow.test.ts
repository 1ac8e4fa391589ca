import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { Client } from '@temporalio/client';
import { mapConcurrently } from '../../src/client/server/map-concurrently';
import { inspectAllInUse } from '../../src/operator/resources-in-use';
import { permitId, queueId } from '../../src/shared/permit-id';
import { PERMIT_WORKFLOW, QUEUE_WORKFLOW } from '../../src/shared/protocol';
import { CliHost } from '../support/cli-host';
import { until, useTemporal } from '../support/temporal';

// A namespace with a thousand resources in use: no look may ask for more than it shows, and what it has not seen it says.

const temporal = useTemporal();
const host = new CliHost();
const COUNT = 1_000;
const QUEUED = 50;
const name = (index: number) => `team-${index}`;
const holderOf = (index: number) => permitId({ resource: name(index), slot: '0' });

before(async () => {
  await until(() => temporal.bundle); // the hooks of a file do not wait for each other
  const { client, taskQueue } = temporal;
  await mapConcurrently([...Array(COUNT).keys()], async (index) => {
    const memo = { leaseMs: 3_600_000, slots: 1, holder: { identity: `holder-${index}` } };
    const options = { workflowId: holderOf(index), taskQueue, memo, args: [memo] };
    await client.workflow.start(PERMIT_WORKFLOW, options);
    if (index < QUEUED) {
      const ticket = { id: 't', slots: 1, sinceMs: Date.now(), waiter: { workflowId: 'none', runId: 'none' } };
      const queue = { workflowId: queueId(name(index)), taskQueue, args: [{ tickets: [ticket] }] };
      await client.workflow.start(QUEUE_WORKFLOW, queue);
    }
  });
  const listed = async (type: string) => {
    return (await client.workflow.count(`WorkflowType = "${type}" AND ExecutionStatus = "Running"`)).count;
  };
  await until(async () => (await listed(PERMIT_WORKFLOW)) === COUNT && (await listed(QUEUE_WORKFLOW)) > 0);
});

test('the overview of a thousand resources asks no permit', async (t) => {
  const { client } = temporal;
  const queries: string[] = [];
  const { workflowService } = client;
  const counting = Object.create(workflowService, {
    queryWorkflow: {
      value: (request: Parameters<typeof workflowService.queryWorkflow>[0], ...rest: []) => {
        queries.push(request.execution?.workflowId ?? '');
        return workflowService.queryWorkflow(request, ...rest);
      },
    },
  });
  const connection = Object.create(client.connection, { workflowService: { value: counting } });
  const observed = new Client({ connection, namespace: client.options.namespace });
  const sinceMs = performance.now();
  const seen = await inspectAllInUse(observed, { overview: true });
  t.diagnostic(`${COUNT} resources in ${Math.round(performance.now() - sinceMs)} ms, ${queries.length} queries`);
  assert.deepEqual(
    queries.filter((workflowId) => workflowId.startsWith('permit:')),
    [],
  );
  assert.equal(seen.length, COUNT);
  assert.ok(seen.some(({ queue }) => queue !== 'none')); // a queue ends when it has found that its waiter is gone
  assert.deepEqual(
    seen.filter(({ held, capacity, isUnseen }) => !isUnseen && (held !== 1 || capacity !== 1)),
    [],
  );
  // A busy machine may leave it no time for the queues. What has none takes no time.
  const unqueued = new Set(Array.from({ length: COUNT - QUEUED }, (_, index) => name(QUEUED + index)));
  assert.deepEqual(
    seen.filter(({ resource, isUnseen }) => isUnseen && unqueued.has(resource)),
    [],
  );
});

test('ls tells rows that were not seen from others, in words, in JSON and by its exit code; doctor calls none of them bad', async () => {
  const at = ['--address', temporal.env.address];
  const json = await host.run(['ls', '-o', 'jsonl', ...at]);
  const rows: { resource: string; held?: number; problem?: string }[] = json.stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  assert.equal(rows.length, COUNT);
  for (const { held, problem } of rows) assert.ok(problem === undefined ? held === 1 : held === undefined, problem);
  assert.equal(json.code, rows.some(({ problem }) => problem !== undefined) ? 75 : 0);
  const doctor = await host.run(['doctor', ...at, '--task-queue', temporal.taskQueue, '--json']);
  const found: { is: string; what: string }[] = JSON.parse(doctor.stdout);
  assert.deepEqual(
    found.filter(({ is, what }) => is === 'bad' && what.includes('inspect')),
    [],
  );
});
