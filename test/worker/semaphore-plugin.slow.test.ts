import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { WorkflowFailedError } from '@temporalio/client';
import { ActivityFailure, ApplicationFailure } from '@temporalio/common';
import { bundleWorkflowCode, DefaultLogger, Worker, type WorkerOptions } from '@temporalio/worker';
import { FencingToken } from '../../src/fencing';
import { SemaphorePlugin, type SemaphorePluginOptions } from '../../src/worker';
import { readBundle } from '../../src/worker/bundle-limits';
import { limitWorkflows, Semaphore } from '../../src/workflow';
import * as activities from '../support/limited/activities';
import * as circle from '../support/limited/circle';
import * as half from '../support/limited/half-limits';
import { gpus, limits, vendor } from '../support/limited/limits';
import * as misspelled from '../support/limited/misspelled';
import type * as workflows from '../support/limited/workflows';
import { assertNoPermitLeft, until, useTemporal } from '../support/temporal';

// The plugin as an application uses it: with the SDK's bundler, and with a bundle made ahead.

const temporal = useTemporal();

const workflowsPath = require.resolve('../support/limited/workflows');
const limitsPath = require.resolve('../support/limited/limits');
const SILENT = new DefaultLogger('ERROR', () => undefined);

async function create(options: Partial<WorkerOptions>, ...plugins: SemaphorePlugin[]): Promise<Worker> {
  const taskQueue = `own-${randomUUID()}`;
  return await Worker.create({ connection: temporal.env.nativeConnection, taskQueue, plugins, ...options });
}

function plugin(more: SemaphorePluginOptions = {}): SemaphorePlugin {
  return new SemaphorePlugin({ taskQueue: 'plugin-permits', limitsPath, ...limits, ...more });
}

/** Ten Workflows of four tenants: at most 3 at once, and 2 of a tenant. */
async function assertLimited(worker: Worker): Promise<void> {
  const { client } = temporal;
  await worker.runUntil(async () => {
    const train = async (tenant: string) => {
      const args: [workflows.Training] = [{ tenant, ms: 200 }];
      const workflowId = `train-${randomUUID()}`;
      const options = { workflowId, taskQueue: worker.options.taskQueue, args };
      return { tenant, ...(await client.workflow.execute<typeof workflows.trainModel>('trainModel', options)) };
    };
    const runs = await Promise.all([...'aaaabbbccd'].map(train));
    const most = (some: typeof runs) =>
      Math.max(...some.map(({ fromMs }) => some.filter((it) => it.fromMs <= fromMs && fromMs < it.toMs).length));
    assert.ok(most(runs) <= 3, `${most(runs)} at once`);
    for (const tenant of 'abcd') assert.ok(most(runs.filter((run) => run.tenant === tenant)) <= 2);
    for (const { own, calls } of runs) {
      assert.equal(FencingToken.parse(own).resource, gpus.resource);
      assert.equal(FencingToken.parse(calls).resource, vendor.resource);
    }
    const options = { workflowId: `free-${randomUUID()}`, taskQueue: worker.options.taskQueue };
    assert.equal(await client.workflow.execute('unlimited', options), 'none');
  });
  for (const { resource } of [gpus, vendor]) await assertNoPermitLeft(client, resource);
}

test('one plugin limits Workflows by key and activities, runs their permits, and carries their tokens', async () => {
  await assertLimited(await create({ workflowsPath, activities }, plugin()));
});

test('a bundle that was made ahead with the plugin has the limits; one without them is refused', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'temporal-semaphore-bundle-'));
  try {
    const codePath = join(directory, 'bundle.js');
    const { code } = await bundleWorkflowCode({ workflowsPath, logger: SILENT, plugins: [plugin()] });
    await writeFile(codePath, code);
    await assertLimited(await create({ workflowBundle: { codePath }, activities }, plugin({ limitsPath: undefined })));

    const other = {
      trainModel: { ...limits.workflows.trainModel, semaphore: new Semaphore('other', { capacity: 3, perKey: 2 }) },
    };
    await assert.rejects(create({ workflowBundle: { code } }, plugin({ workflows: other })), {
      name: 'InvalidOptionsError',
      message: /^workflows\.trainModel: expected the limit that the Workflow bundle has \(plugin-gpus .*, got "other /,
    });
  } finally {
    await rm(directory, { recursive: true });
  }
  const { code } = await bundleWorkflowCode({ workflowsPath, logger: SILENT });
  await assert.rejects(create({ workflowBundle: { code } }, plugin()), {
    name: 'InvalidOptionsError',
    message: /^limitsPath: expected the path of your module .*, got "a Workflow bundle without limits"$/,
  });
});

test('what would limit nothing is refused before the worker starts', async () => {
  const options = { taskQueue: 'plugin-permits' };
  const none = { name: 'InvalidOptionsError' };
  await assert.rejects(create({ workflowsPath }, new SemaphorePlugin({ ...options, workflows: limits.workflows })), {
    ...none,
    message: /^limitsPath: expected the path/,
  });
  const wrong = {
    ...options,
    workflows: misspelled.workflows,
    limitsPath: require.resolve('../support/limited/misspelled'),
  };
  await assert.rejects(create({ workflowsPath }, new SemaphorePlugin(wrong)), {
    ...none,
    message: /^workflows: expected types of this worker's Workflows \(trainModel, unlimited\), got "trainModle"$/,
  });
});

test('a Workflows file that lacks all permit Workflows, or only those with a pace, is refused where permits would run on it', async () => {
  const own = {
    taskQueue: 'plugin-permits',
    workflows: half.workflows,
    limitsPath: require.resolve('../support/limited/half-limits'),
  };
  for (const [file, missing] of [
    ['workflows', 'permitSlotWorkflow, pacedPermitWorkflow, waitQueueWorkflow, .*'],
    ['without-paced', 'pacedPermitWorkflow"$'],
  ] as const) {
    const options = { workflowsPath: require.resolve(`../support/limited/${file}`), taskQueue: 'plugin-own' };
    await assert.rejects(create(options, new SemaphorePlugin(own)), {
      name: 'InvalidOptionsError',
      message: new RegExp(
        `^semaphore "plugin-own-queue": expected another task queue than your worker's; or, .* got "taskQueue .*plugin-own.*, and Workflows without ${missing}`,
      ),
    });
  }
});

test('an activity that needs a permit which its Workflow holds is refused for good; another Workflow calls it', async () => {
  const path = require.resolve('../support/limited/circle');
  const worker = await create({ workflowsPath: path, activities }, plugin({ ...circle.limits, limitsPath: path }));
  const { taskQueue } = worker.options;
  await worker.runUntil(async () => {
    const run = (type: string) =>
      temporal.client.workflow.execute(type, { workflowId: `${type}-${randomUUID()}`, taskQueue });
    for (const type of ['limited', 'underAnother', 'underSet']) {
      const error: unknown = await run(type).catch((error: unknown) => error);
      assert.ok(error instanceof WorkflowFailedError && error.cause instanceof ActivityFailure, String(error));
      const { cause } = error.cause;
      assert.ok(cause instanceof ApplicationFailure && cause.nonRetryable);
      assert.equal(cause.type, 'SelfDeadlockError');
      assert.equal(
        cause.message,
        `The activity "callVendor" is limited by "plugin-circle", and the Workflow "${type}" calls it under a permit of ` +
          '"plugin-circle": each would wait for the other. Limit only one of the two, or limit the activity with its own resource.',
      );
    }
    assert.equal(FencingToken.parse(await run('beside')).resource, 'plugin-circle');
  });
  for (const resource of ['plugin-circle', 'plugin-beside']) await assertNoPermitLeft(temporal.client, resource);
});

test('a worker needs no limits of what it does not have: of Workflows, of activities, or of other types', async () => {
  const worker = await create({ activities }, plugin());
  await worker.runUntil(() => until(() => worker.getState() === 'RUNNING'));
  const { workflows } = limits;
  const wrong = { nobody: limits.activities.callVendor };
  const other = await create({ workflowsPath }, plugin({ workflows, activities: wrong }));
  await other.runUntil(() => until(() => other.getState() === 'RUNNING'));
  const some = await create({ workflowsPath }, plugin({ workflows: {} }));
  await some.runUntil(() => until(() => some.getState() === 'RUNNING'));
});

test('Workflows that can be loaded in a Workflow alone keep their names to themselves', async () => {
  const { code } = await bundleWorkflowCode({ workflowsPath, logger: SILENT, plugins: [plugin()] });
  assert.deepEqual(readBundle(code).workflows, ['trainModel', 'unlimited']);
  const broken = code.replace(
    'async function unlimited()',
    'throw new Error("in a Workflow only"); async function unlimited()',
  );
  assert.notEqual(broken, code);
  assert.equal(readBundle(broken).workflows, undefined);
  assert.deepEqual(Object.keys(readBundle(broken).limits ?? {}), ['trainModel']);
});

test('limits that can not be are refused, and the error names the type', () => {
  const plain = new Semaphore('a', { capacity: 1 });
  const keyed = new Semaphore('b', { capacity: 2, perKey: 1 });
  for (const [limit, message] of [
    [{}, /^The limit of "t": semaphore: expected a Semaphore/],
    [{ semaphore: keyed }, /^The limit of "t": key: expected a function of the arguments: its semaphore has perKey/],
    [{ semaphore: plain, key: () => 'a' }, /^The limit of "t": key: expected none: its semaphore has no perKey/],
    [{ semaphore: plain, timeout: -1 }, /^The limit of "t": timeout: expected a duration/],
    [{ semaphore: plain, patch: 1 }, /^The limit of "t": patch: expected a boolean/],
    [{ semaphore: plain, timout: 1 }, /^The limit of "t": Unknown option "timout". Did you mean "timeout"/],
    [
      { semaphore: keyed, key: () => 'a', outlivesRun: true },
      /^The limit of "t": outlivesRun can't be combined with key/,
    ],
    [null, /^The limit of "t": limit: expected an object/],
  ] as const) {
    const refused = { name: 'InvalidOptionsError', message };
    assert.throws(() => limitWorkflows({ t: limit } as never), refused);
    assert.throws(() => new SemaphorePlugin({ workflows: { t: limit } as never }), refused);
  }
  const ours = { permitSlotWorkflow: { semaphore: plain } };
  assert.throws(() => limitWorkflows(ours), /^InvalidOptionsError: workflows: expected your own Workflows/);
  const two = {
    workflows: { a: { semaphore: plain } },
    activities: { b: { semaphore: new Semaphore('a', { capacity: 2 }) } },
  };
  assert.throws(() => new SemaphorePlugin(two), /^InvalidOptionsError: semaphore "a": expected one declaration of it/);
});
