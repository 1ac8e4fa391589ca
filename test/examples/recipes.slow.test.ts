import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { Worker } from '@temporalio/worker';
import type { RecipeActivities } from '../../examples/recipes/activities';
import { askAll, deployNewest, migrate, nightly, standForLeader, withPythonsGpu } from '../../examples/recipes/clients';
import * as recipes from '../../examples/recipes/workflows';
import { bundleExample } from '../../scripts/support/workflow-bundles';
import { SemaphoreClient } from '../../src/client';
import { PostgresFence, StaleTokenError } from '../../src/fencing';
import { Operator } from '../../src/operator';
import { permitId, queueId } from '../../src/shared/permit-id';
import { OVERRIDE } from '../../src/shared/protocol';
import { startOptions } from '../support/holders';
import { operatorOf } from '../support/operators';
import { usePostgres } from '../support/postgres';
import { assertNoPermitLeft, eventually, until, untilWaiting, useTemporal } from '../support/temporal';
import { PermitSlotWorkflow } from '../support/workflows';

let worker: Worker;
let running: Promise<void>;
// Before the server stops, which the next line sees to: hooks run in the order in which they were registered.
after(async () => {
  worker?.shutdown();
  await running;
});

// The recipes name their resources and their task queue.
const temporal = useTemporal();
const postgres = usePostgres();
const TASK_QUEUE = 'permits';
const ROOT = join(__dirname, '..', '..');

/** How many activities of a name run at once, and at most did. */
class Running {
  private now = 0;
  most = 0;

  async run<T>(work: () => Promise<T> | T): Promise<T> {
    this.most = Math.max(this.most, ++this.now);
    await delay(100);
    try {
      return await work();
    } finally {
      this.now--;
    }
  }
}

const mutex = new Running();
const gpuUse = new Map(['gpu-a', 'gpu-b', 'gpu-c'].map((gpu) => [gpu, new Running()]));
const tenants = new Map(['acme', 'zebra'].map((tenant) => [tenant, new Running()]));
const readers = new Running();
const writers = new Running();
const embedding = new Running();
const embedded: number[] = [];
const rows: string[] = [];
let torn = false;
let number = 0;
let refused = false;

const activities: RecipeActivities = {
  nextNumber: (_order) =>
    mutex.run(async () => {
      const next = number + 1;
      await delay(20); // what reads and then writes must be alone
      number = next;
      return next;
    }),
  train: async (dataset, gpu) => (await gpuUse.get(gpu)?.run(() => `${dataset} on ${gpu}`)) ?? assert.fail(gpu),
  ask: async (tenant, question) => {
    return (
      (await tenants.get(tenant)?.run(() => {
        if (refused) return { status: 200 as const, text: `${tenant}: ${question}` };
        refused = true;
        return { status: 429 as const, retryAfterMs: 1_000 };
      })) ?? assert.fail(tenant)
    );
  },
  readTable: () =>
    readers.run(() => {
      torn ||= rows.length % 2 === 1; // an assertion here would only be tried again
      return [...rows];
    }),
  writeTable: (row) =>
    writers.run(async () => {
      rows.push(row);
      await delay(100);
      rows.push(row);
    }),
  send: async () => undefined,
  embed: (page) =>
    embedding.run(() => {
      embedded.push(page);
    }),
};

before(async () => {
  const workflowBundle = await bundleExample({ workflowsPath: require.resolve('../support/recipes-workflows') });
  await until(() => temporal.bundle); // the hooks of a file do not wait for each other
  worker = await Worker.create({
    connection: temporal.env.nativeConnection,
    workflowBundle,
    activities,
    taskQueue: TASK_QUEUE,
  });
  running = worker.run();
});

function run<Args extends unknown[], T>(workflow: (...args: Args) => Promise<T>, ...args: Args): Promise<T> {
  const options = { ...startOptions(temporal, 'recipe'), taskQueue: TASK_QUEUE };
  return temporal.client.workflow.execute(workflow as () => Promise<T>, { ...options, args: args as unknown as [] });
}

const twice = <T>(items: T[]) => [...items, ...items];

test('the pages show the code of the examples, word for word, and all of it', () => {
  const page = ['recipes.md', 'comparison.md'].map((name) => readFileSync(join(ROOT, 'docs', name), 'utf8')).join('\n');
  const shown = [...page.matchAll(/<!-- (examples\/recipes\/[a-z]+\.ts)#([a-z-]+) -->\n+```ts\n(.*?)\n```/gs)];
  const all: string[] = [];
  for (const file of ['examples/recipes/workflows.ts', 'examples/recipes/clients.ts']) {
    const source = readFileSync(join(ROOT, file), 'utf8');
    for (const [, name = '', code = ''] of source.matchAll(/\/\/ #region ([a-z-]+)\n(.*?)\n\/\/ #endregion/gs)) {
      all.push(`${file}#${name}`);
      const block = shown.find(([, of, region]) => of === file && region === name);
      assert.equal(block?.[3], code, `${file}#${name} is not what docs/recipes.md or docs/comparison.md shows`);
    }
  }
  assert.equal(all.length, 13);
  assert.deepEqual([...new Set(shown.map(([, file, name]) => `${file}#${name}`))].sort(), all.sort());
});

describe('each recipe runs', { concurrency: 3 }, () => {
  test('a mutex', async () => {
    const numbers = await Promise.all(['a', 'b', 'c', 'd'].map((order) => run(recipes.numberInvoice, order)));
    assert.deepEqual(numbers.sort(), [1, 2, 3, 4]);
    assert.equal(mutex.most, 1);
  });

  test('GPUs with names', async () => {
    const trained = await Promise.all(twice(['a', 'b', 'c']).map((dataset) => run(recipes.trainOn, dataset)));
    assert.ok(trained.every((told) => /^[abc] on gpu-[abc]$/.test(told)));
    for (const [gpu, { most }] of gpuUse) assert.ok(most <= 1, `${gpu} was used by ${most} at once`);
  });

  test('give up when all are busy', async () => {
    const gpus = new SemaphoreClient(temporal.client, 'gpus', { slots: [...gpuUse.keys()], taskQueue: TASK_QUEUE });
    const all = await Promise.all([1, 2, 3].map(() => gpus.acquire()));
    const told = run(recipes.trainUnlessBusy, 'a');
    await told.finally(() => Promise.all(all.map((permit) => permit.release())));
    assert.equal(await told, 'all GPUs are busy');
    assert.match(await run(recipes.trainUnlessBusy, 'a'), /^a on gpu-[abc]$/);
  });

  test("a vendor's API: two calls for each tenant, and a pause after a 429", async () => {
    const questions = twice(twice(['acme', 'zebra']));
    const answers = await Promise.all(questions.map((tenant) => run(recipes.askFor, tenant, 'how much?')));
    assert.deepEqual(answers.sort(), questions.map((tenant) => `${tenant}: how much?`).sort());
    for (const { most } of tenants.values()) assert.ok(most <= 2, `${most} calls of one tenant`);
    await eventually(async () => {
      const orders: unknown[] = [];
      const query = `WorkflowId = "${queueId('vendor-api')}"`;
      for await (const { workflowId, runId } of temporal.client.workflow.list({ query })) {
        const { events } = await temporal.client.workflow.getHandle(workflowId, runId).fetchHistory();
        for (const { workflowExecutionSignaledEventAttributes: signal } of events ?? []) {
          if (signal?.signalName === OVERRIDE) orders.push(signal);
        }
      }
      assert.equal(orders.length, 1, 'the 429 pauses the resource');
    });
  });

  test('a lock for migrations: one migrates, and PostgreSQL refuses one that has lost its permit', async () => {
    const steps = ['CREATE TABLE IF NOT EXISTS recipe (n int)', 'INSERT INTO recipe VALUES (1)'];
    await Promise.all([1, 2, 3].map(() => migrate(temporal.client, postgres.pool, steps)));
    assert.equal((await postgres.pool.query('SELECT * FROM recipe')).rows.length, 3);
    const lock = new SemaphoreClient(temporal.client, 'migrations', { capacity: 1, taskQueue: TASK_QUEUE });
    const lost = await lock.acquire();
    await operatorOf(lock).revoke('0');
    await migrate(temporal.client, postgres.pool, steps);
    const late = new PostgresFence('migrations').transaction(postgres.pool, lost, async () => undefined);
    await assert.rejects(late, StaleTokenError);
  });

  test('a cron job that runs once', async () => {
    let runs = 0;
    const job = async () => {
      runs++;
      await delay(1_000);
    };
    const ran = await Promise.all([1, 2, 3].map(() => nightly(temporal.client, job)));
    assert.equal(runs, ran.filter(Boolean).length);
    assert.ok(runs >= 1);
    await assert.rejects(
      nightly(temporal.client, async () => {
        throw new Error('the report has failed');
      }),
      /the report has failed/,
    );
    assert.equal(await nightly(temporal.client, job), true, 'a failure frees the slot');
  });

  test('only the newest deploy: the one that runs goes on, and those that were superseded never begin', async () => {
    const begun: string[] = [];
    let finish = () => {};
    const finished = new Promise<void>((resolve) => {
      finish = resolve;
    });
    const deploy = (commit: string) =>
      deployNewest(temporal.client, commit, async () => {
        begun.push(commit);
        await finished;
      });
    const first = deploy('first');
    await eventually(async () => assert.deepEqual(begun, ['first']));
    const second = deploy('second');
    await untilWaiting(temporal.client, 'production', 1);
    const third = deploy('third');
    assert.equal(await second, 'superseded');
    await untilWaiting(temporal.client, 'production', 1);
    const fourth = deploy('fourth');
    assert.equal(await third, 'superseded');
    finish();
    assert.deepEqual(await Promise.all([first, fourth]), ['deployed', 'deployed']);
    assert.deepEqual(begun, ['first', 'fourth']);
  });

  test('a leader, and another one when it has lost its permit', async () => {
    const stop = new AbortController();
    const leads: string[] = [];
    let leaders = 0;
    const candidate = (name: string) =>
      standForLeader(
        temporal.client,
        async (signal) => {
          assert.equal(++leaders, 1, 'two lead at once');
          leads.push(name);
          if (!signal.aborted)
            await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
          leaders--;
        },
        stop.signal,
      );
    const candidates = Promise.all([candidate('a'), candidate('b')]);
    await eventually(async () => assert.equal(leads.length, 1));
    await untilWaiting(temporal.client, 'leader', 1);
    await new Operator(temporal.client, 'leader', { capacity: 1, taskQueue: TASK_QUEUE }).revoke('0');
    await eventually(async () => assert.equal(leads.length, 2)); // the same one, perhaps: it stands again at once
    stop.abort();
    await candidates;
    assert.equal(leaders, 0);
  });

  test('a read-write lock: readers share it, and a writer has it alone', async () => {
    const read = () => run(recipes.read);
    const all = [read(), read(), read(), run(recipes.write, 'x'), read(), read(), run(recipes.write, 'y'), read()];
    await Promise.all(all);
    assert.deepEqual([torn, writers.most, [...rows].sort()], [false, 1, ['x', 'x', 'y', 'y']]);
  });

  test('a slow lane', async () => {
    const sinceMs = Date.now();
    await Promise.all([1, 2, 3, 4, 5].map((n) => run(recipes.sendSlowly, `message ${n}`)));
    // Five on two slots: three on one of them, and so twice the pace between the first and the last.
    assert.ok(Date.now() - sinceMs >= 2_000, `${Date.now() - sinceMs} ms`);
  });

  test('many items in a Workflow, each under a permit, or a chunk under one', async () => {
    const numbers = [...Array(20).keys()];
    await run(recipes.embedAll, numbers.slice(0, 8));
    await run(recipes.embedChunks, [
      numbers.slice(8, 11),
      numbers.slice(11, 14),
      numbers.slice(14, 17),
      numbers.slice(17),
    ]);
    assert.deepEqual(
      [...embedded].sort((a, b) => a - b),
      numbers,
    );
    assert.ok(embedding.most <= 3, `${embedding.most} at once`);
  });

  test('many items in a service: their answers in order, three at once, and those that wait are not asked after a failure', async () => {
    const answering = new Running();
    const questions = [...Array(12).keys()].map((n) => `question ${n}`);
    const ask = (question: string) => answering.run(() => `answer to ${question}`);
    const answers = await askAll(temporal.client, questions, ask);
    assert.deepEqual(
      answers,
      questions.map((question) => `answer to ${question}`),
    );
    assert.ok(answering.most <= 3, `${answering.most} at once`);
    const asked: string[] = [];
    const failing = askAll(temporal.client, questions, async (question) => {
      asked.push(question);
      if (asked.length === 1) throw new Error('no answer');
      return await ask(question);
    });
    await assert.rejects(failing, /no answer/);
    assert.ok(asked.length < questions.length, `${asked}`);
  });

  test("a resource shared with Temporal's own Python pattern", async () => {
    const resource = 'python-gpus';
    const startPython = (slot: string) =>
      temporal.client.workflow.start(PermitSlotWorkflow, {
        workflowId: permitId({ resource, slot }),
        taskQueue: TASK_QUEUE,
        args: [{ lease_seconds: 600 }],
      });
    const python = await Promise.all(['0', '1'].map(startPython));
    let finish = () => {};
    const finished = new Promise<void>((resolve) => {
      finish = resolve;
    });
    const taken: string[] = [];
    const work = (slot: string) => {
      taken.push(slot);
      return finished;
    };
    const first = withPythonsGpu(temporal.client, work);
    await eventually(async () => assert.deepEqual(taken, ['2']));
    await assert.rejects(startPython('2'), /already started/i, 'Python finds our slot busy');
    const second = withPythonsGpu(temporal.client, work);
    await untilWaiting(temporal.client, resource, 1);
    await python[1]?.signal('release');
    await eventually(async () => assert.deepEqual(taken, ['2', '1'])); // the queue has asked
    finish();
    await Promise.all([first, second, python[0]?.signal('release')]);
  });
});

test('and leaves nothing behind', async () => {
  const names = [
    'invoices',
    'gpus',
    'vendor-api',
    'migrations',
    'nightly',
    'production',
    'leader',
    'table',
    'slow-lane',
    'embeddings',
    'answers',
  ];
  await Promise.all([...names, 'python-gpus'].map((name) => assertNoPermitLeft(temporal.client, name)));
});
