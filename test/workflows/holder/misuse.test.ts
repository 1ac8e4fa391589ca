import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  acquireAll as acquireAllOutside,
  InvalidOptionsError,
  PermitPool,
  SemaphoreClient,
  withPermits,
} from '../../../src/client';
import { currentPermit } from '../../../src/fencing-workflow';
import { Operator } from '../../../src/operator';
import { acquireAll, Semaphore } from '../../../src/workflow';
import { startOptions } from '../../support/holders';
import { eventually, permitsRunning, useTemporal } from '../../support/temporal';
import * as workflows from '../../support/workflows';

// What a user reads who has made a mistake. Nothing is sent, and no permit is left.

const temporal = useTemporal({ shared: true });

test('a Workflow that uses a semaphore wrongly is refused by the failure of the Workflow, and not of its task', async () => {
  const resource = temporal.resource();
  const handle = await temporal.client.workflow.start(workflows.misuses, {
    ...startOptions(temporal, 'misuses'),
    args: [resource],
  });
  assert.deepEqual(await handle.result(), [
    'InvalidOptionsError: fn: expected a function as the first argument, got undefined',
    'InvalidOptionsError: fn: expected a function as the first argument, got an object',
    'InvalidOptionsError: fn: expected a function as the first argument, got undefined',
    'InvalidOptionsError: Unknown option "permit". Did you mean "permits"?',
    "InvalidOptionsError: timeout can't be combined with tryAcquire: it does not wait. Call acquire.",
    'InvalidOptionsError: Unknown option "reson". Did you mean "reason"?',
    'InvalidOptionsError: lease: expected a duration of 100 ms or more, as a number of milliseconds or a string like "30s", got 30',
  ]);
  assert.deepEqual(await permitsRunning(temporal.client, resource), []);
});

test('likewise a client and an operator, before any call', async () => {
  const called = { value: () => assert.fail('the server is called') };
  const client = Object.create(temporal.client, { withDeadline: called, withAbortSignal: called });
  const taskQueue = 'permits';
  const semaphore = new SemaphoreClient(client, 'gpus', { capacity: 1, taskQueue });
  const pool = new PermitPool(semaphore);
  const operator = new Operator(client, 'gpus', { capacity: 3, taskQueue });
  const any = undefined as never;
  const uses: [() => unknown, string][] = [
    [
      () => new SemaphoreClient(temporal.env.connection as never, 'gpus', { capacity: 1, taskQueue }),
      'client: expected new Client({ connection }) of @temporalio/client, got a Connection',
    ],
    [
      () => new Operator(any, 'gpus'),
      'client: expected new Client({ connection }) of @temporalio/client, got undefined',
    ],
    [
      () => new SemaphoreClient(client, 'gpus', { capacity: 1, taskQueue: '' }),
      'taskQueue: expected a non-empty string, got ""',
    ],
    [() => new PermitPool({} as never), 'semaphore: expected a SemaphoreClient, got an object'],
    [
      () => new PermitPool(new (class SemaphoreClient {})() as never),
      'semaphore: expected a SemaphoreClient, got a SemaphoreClient of another copy of that class: `npm ls` shows which package is installed twice',
    ],
    [() => semaphore.withPermit(any), 'fn: expected a function as the first argument, got undefined'],
    [() => withPermits([semaphore], any), 'fn: expected a function as the first argument, got undefined'],
    [() => pool.withPermit(any), 'fn: expected a function as the first argument, got undefined'],
    [
      () => withPermits(['gpus'] as never, async () => 1),
      'entries[0]: expected a semaphore, or { of: semaphore }, got a string',
    ],
    [
      () => withPermits([{ of: semaphore, permit: 2 } as never], async () => 1),
      'Unknown option "permit". Did you mean "permits"?',
    ],
    [
      () => semaphore.tryAcquire({ timeout: '5s' } as object),
      "timeout can't be combined with tryAcquire: it does not wait. Call acquire.",
    ],
    [
      () => pool.tryAcquire({ timeout: '5s' } as object),
      "timeout can't be combined with tryAcquire: it does not wait. Call acquire.",
    ],
    [
      () => semaphore.acquire({ outlivesRun: true } as object),
      "outlivesRun can't be combined with a SemaphoreClient: its permits belong to no Workflow run.",
    ],
    [
      () => new Operator(client, 'gpus', { capcity: 3 } as object),
      'Unknown option "capcity". Did you mean "capacity"?',
    ],
    [
      () => new Operator(client, 'gpus', { key: 'acme', capacity: 20 }),
      'key: expected perKey instead of capacity and slots, which belong to the resource, got {"capacity":20}',
    ],
    [() => new Operator(client, 'gpus', { perKey: 2 }), 'perKey: expected none without a key, got 2'],
    [() => operator.inspect({ recnt: 3 } as object), 'Unknown option "recnt". Did you mean "recent"?'],
    [() => operator.revoke('0', { runid: 'x' } as object), 'Unknown option "runid". Did you mean "runId"?'],
    [() => operator.resize(2, { ifversion: 1 } as object), 'Unknown option "ifversion". Did you mean "ifVersion"?'],
    [() => operator.pause({ untl: new Date() } as object), 'Unknown option "untl". Did you mean "until"?'],
    [() => operator.resume({ timeut: '1s' } as object), 'Unknown option "timeut". Did you mean "timeout"?'],
  ];
  for (const [use, message] of uses) {
    const refused = (error: unknown) => error instanceof InvalidOptionsError && error.message === message;
    await assert.rejects(async () => await use(), refused, message);
  }
  await pool.close();
});

test('a semaphore of Workflows says in an activity and in plain Node which one to take', async () => {
  const semaphore = new Semaphore('gpus', { capacity: 1 });
  const uses = [
    () => semaphore.withPermit(async () => 'ran'),
    () => semaphore.acquire(),
    () => semaphore.tryAcquire(),
    () => semaphore.adopt({} as never),
    () => semaphore.pauseUntil(new Date(Date.now() + 60_000)),
    () => acquireAll([semaphore]),
  ];
  for (const use of uses) {
    // Not retryable: an activity would be tried for ever.
    await assert.rejects(use(), {
      type: 'IllegalStateError',
      nonRetryable: true,
      message: /use the SemaphoreClient of/,
    });
  }
  assert.throws(() => currentPermit(), { type: 'IllegalStateError', message: /An activity reads currentFencingToken/ });
});

test('a permit that nobody releases, nor looks at, is warned of after a lease, with where it was acquired', async () => {
  const warnings: (Error & { code?: string; detail?: string })[] = [];
  const hear = (warning: Error) => warnings.push(warning);
  process.on('warning', hear);
  const semaphore = (name: string) =>
    new SemaphoreClient(temporal.client, temporal.resource(name), {
      capacity: 3,
      taskQueue: temporal.taskQueue,
      lease: '2s',
    });
  const used = semaphore('used');
  const [released, watched, asked] = [await used.acquire(), await used.acquire(), await used.acquire()];
  await released.release();
  watched.signal.addEventListener('abort', () => undefined);
  assert.equal(asked.isHeld, true);
  const forgotten = await semaphore('forgotten').acquire();
  const tried = await semaphore('tried').tryAcquire();
  const set = await acquireAllOutside([{ of: semaphore('set'), permits: 2 }]);
  const own = () => warnings.filter(({ code }) => code === 'TEMPORAL_SEMAPHORE_FORGOTTEN');
  await eventually(async () => assert.equal(own().length, 3));
  process.off('warning', hear);
  for (const [index, id] of [forgotten.workflowId, `${tried?.workflowId}`, / and 1 more /].entries()) {
    assert.match(own()[index]?.message ?? '', id instanceof RegExp ? id : new RegExp(` ${id} was acquired 2 s ago`));
    assert.match(own()[index]?.detail ?? '', /^Acquired\n +at .*misuse\.test/);
  }
  await Promise.all([watched, asked, forgotten, tried, set].map((held) => held?.release()));
});
