import assert from 'node:assert/strict';
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import type { WorkflowHandle } from '@temporalio/client';
import { Worker } from '@temporalio/worker';
import { TcpProxy } from '../../../scripts/support/tcp-proxy';
import { bundleWorkflows } from '../../../scripts/support/workflow-bundles';
import { SemaphoreClient } from '../../../src/client';
import { hasJustMoved } from '../../../src/client/server/grpc-errors';
import { QUERY_MS } from '../../../src/client/server/server';
import { type Operator, StaleOverrideError } from '../../../src/operator';
import { queueId } from '../../../src/shared/permit-id';
import { ENQUEUE, OVERRIDE, QUEUE_VIEW, QUEUE_WORKFLOW } from '../../../src/shared/protocol';
import { handOn } from '../../../src/workflows/queue/handed-on';
import { QueueState } from '../../../src/workflows/queue/queue-state';
import { endWithTests } from '../../support/children';
import { startOptions } from '../../support/holders';
import { soundTicket } from '../../support/malformed';
import { operatorOf } from '../../support/operators';
import { eventually, queueView, untilWaiting, useTemporal } from '../../support/temporal';
import * as workflows from '../../support/workflows';

const temporal = useTemporal();

const SLEEP_MS = 12_000;
const ATTEMPTS = 4;

/** Within this a worker starts and answers, on a busy machine too. */
const ANSWER = '90s';

async function startWorker(taskQueue: string, address = temporal.env.address) {
  const args = [address, taskQueue];
  const worker = endWithTests(
    fork(require.resolve('../../support/worker-main'), args, { execArgv: ['--import', 'tsx'] }),
  );
  await once(worker, 'message');
  return worker;
}

/** A queue that stays, and whose last Workflow Tasks had nothing to do: it has heard that two permits were released. */
async function quietQueue(taskQueue: string) {
  const semaphore = new SemaphoreClient(temporal.client, temporal.resource(), { capacity: 3, taskQueue });
  const operator = operatorOf(semaphore);
  const worker = await startWorker(taskQueue);
  await operator.resize(2); // the queue keeps the third slot out of use, so it has no timer of its own
  const [one, other] = [await semaphore.acquire(), await semaphore.acquire()];
  const enough = new AbortController();
  const waiting = semaphore.acquire({ signal: enough.signal });
  await untilWaiting(temporal.client, semaphore.resource, 1);
  enough.abort();
  await assert.rejects(waiting);
  await untilWaiting(temporal.client, semaphore.resource, 0);
  await delay(2_000); // the timer for the waiter has rung
  for (const permit of [one, other]) {
    await permit.release();
    await delay(1_000); // the queue has heard of it, and has nothing to do
  }
  const queue = temporal.client.workflow.getHandle(queueId(semaphore.resource));
  /** It wants a slot that the queue may have forgotten, or not. */
  const enqueue = () => queue.signal(ENQUEUE, soundTicket({ slots: 3 }));
  return { operator, worker, queue, enqueue };
}

async function kill(worker: ChildProcess, signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
  worker.kill(signal);
  await once(worker, 'exit');
}

/** Unlike a worker that is killed, this one tells the server that it goes. */
const stop = (worker: ChildProcess) => kill(worker, 'SIGTERM');

async function replay(...queues: WorkflowHandle[]): Promise<void> {
  const workflowBundle = await bundleWorkflows(require.resolve('../../support/workflows'));
  for (const queue of queues)
    await Worker.runReplayHistory({ workflowBundle }, await queue.fetchHistory(), queue.workflowId);
}

/**
 * An operator's order waits for a worker. The one that takes the queue over gets the signals since the last command in one activation,
 * and then the order. Where the order is accepted, a replay gives the signals of each Workflow Task apart.
 */
test('an order that waits for a new worker leaves a history that replays', async () => {
  const taskQueue = `${temporal.taskQueue}-order`;
  const { operator, worker, queue, enqueue } = await quietQueue(taskQueue);
  await kill(worker);
  const paused = operator.pause({ timeout: ANSWER });
  await delay(500);
  await enqueue();
  await delay(1_500);
  await startWorker(taskQueue);
  await paused;
  await delay(1_000); // the queue hears that the ticket has no waiter
  await replay(queue);
  await operator.resume();
  await operator.resize(3);
});

/**
 * The worker that answers a query has replayed all, so it takes the order, as the worker before would have. If it refused the order,
 * a replay would give the signals of the last two Workflow Tasks in one activation.
 */
test('an order that comes to a new worker after a query, together with a signal, leaves a history that replays', async (t) => {
  const taskQueue = `${temporal.taskQueue}-after-query`;
  const { operator, worker, queue, enqueue } = await quietQueue(taskQueue);
  await kill(worker);
  const proxy = await TcpProxy.to(temporal.env.address);
  const second = await startWorker(taskQueue, proxy.address);
  t.after(async () => {
    await kill(second);
    await proxy.close();
  });
  await operator.inspect();
  proxy.cut('reset');
  const paused = operator.pause({ timeout: ANSWER });
  await delay(300); // the order has scheduled the Workflow Task, which no worker takes
  await enqueue();
  await delay(300);
  proxy.mend();
  await paused;
  await delay(1_000); // the queue hears that the ticket has no waiter
  await replay(queue);
  await operator.resume();
  await operator.resize(3);
});

/**
 * The next run of a queue had nothing to do in its first Workflow Task. The worker that takes it over gets its begin and the order in one
 * activation, and replays nothing before.
 */
test('an order that brings a new worker to a queue which has done nothing so far leaves a history that replays', async () => {
  const taskQueue = `${temporal.taskQueue}-begin`;
  const semaphore = new SemaphoreClient(temporal.client, temporal.resource(), { capacity: 2, taskQueue });
  const first = await startWorker(taskQueue);
  const state = new QueueState({
    tickets: [],
    slots: [
      ['0', { at: 'free' }],
      ['1', { at: 'free' }],
    ],
    shares: [],
    override: { version: 7, slots: 2, capacity: 4, paused: false },
  });
  const queue = await temporal.client.workflow.start(workflows.continuesAs, {
    workflowId: queueId(semaphore.resource),
    taskQueue,
    args: [QUEUE_WORKFLOW, handOn(state)],
  });
  const next = temporal.client.workflow.getHandle(queue.workflowId);
  await eventually(async () => assert.ok((await queueView(temporal.client, semaphore.resource))?.override));
  await kill(first);
  const second = startWorker(taskQueue);
  await operatorOf(semaphore).resize(2, { timeout: ANSWER });
  await second;
  await replay(next);
});

/** Checks a paused queue, for which a signal changes the reason, and so the version, which is a time, but leaves nothing to do. */
async function whilePaused(
  taskQueue: string,
  check: (paused: {
    operator: Operator;
    worker: ChildProcess;
    queue: WorkflowHandle;
    version(): Promise<number | undefined>;
    changeReason(): Promise<void>;
  }) => Promise<void>,
): Promise<void> {
  const semaphore = new SemaphoreClient(temporal.client, temporal.resource(), { capacity: 1, taskQueue });
  const operator = operatorOf(semaphore);
  const worker = await startWorker(taskQueue);
  await operator.pause();
  const queue = temporal.client.workflow.getHandle(queueId(semaphore.resource));
  const version = async () => (await queueView(temporal.client, semaphore.resource))?.override?.version;
  const changeReason = () => queue.signal(OVERRIDE, { slots: 1, paused: true, reason: 'by signal' });
  try {
    await check({ operator, worker, queue, version, changeReason });
  } finally {
    await operator.resume({ timeout: ANSWER });
  }
}

/**
 * The order alone has scheduled the Workflow Task in which the new worker refuses it, so the server discards the task. But in this task,
 * the queue got the signal that the worker before had handled: later than that worker, and than a replay.
 */
test('an order alone, which a new worker refuses, leaves the queue as a replay has it', async () => {
  const taskQueue = `${temporal.taskQueue}-alone`;
  await whilePaused(taskQueue, async ({ operator, worker, version, changeReason }) => {
    let seen = await version();
    const isChanged = async () => {
      const before = seen;
      seen = await version();
      assert.notEqual(seen, before);
    };
    // Of two tasks in a row without a command, the second is given again.
    for (let signals = 0; signals < 2; signals++) {
      await changeReason();
      await eventually(isChanged);
    }
    await stop(worker); // and so the server gives the order to the other worker in a task that it can discard
    const second = await startWorker(taskQueue);
    await assert.rejects(operator.resize(1, { ifVersion: 7, timeout: ANSWER }), StaleOverrideError);
    seen = await version();
    await stop(second);
    await startWorker(taskQueue);
    assert.equal(await version(), seen);
  });
});

/** A query may come in a task that the server had just started, and that gets lost. The query does not show whether its news has had a task. */
test('the first query after a new worker has taken the Workflow over is refused, and the library asks again', async () => {
  const taskQueue = `${temporal.taskQueue}-after-move`;
  await whilePaused(taskQueue, async ({ operator, worker, queue, changeReason }) => {
    await kill(worker);
    await changeReason();
    await startWorker(taskQueue);
    await eventually(async () => {
      const { events } = await queue.fetchHistory();
      assert.ok(events?.at(-1)?.workflowTaskCompletedEventAttributes);
    });
    await assert.rejects(queue.query(QUEUE_VIEW), hasJustMoved);
    assert.equal((await operator.inspect()).queue, 'running');
    await replay(queue);
  });
});

/**
 * The same delay as below, but a queue is asked: without the refusal it would give turns by the time of the task before, and the next
 * task would record them.
 */
test('a query that comes to a new worker before the Workflow Task is refused, and the library asks again', async () => {
  const taskQueue = `${temporal.taskQueue}-query`;
  const first = await startWorker(taskQueue);
  const semaphores = Array.from(
    { length: 5 },
    () => new SemaphoreClient(temporal.client, temporal.resource(), { capacity: 1, taskQueue }),
  );
  await Promise.all(semaphores.map((semaphore) => operatorOf(semaphore).resize(2))); // a queue that stays
  await startWorker(taskQueue);
  await kill(first);
  const queues = semaphores.map(({ resource }) => temporal.client.workflow.getHandle(queueId(resource)));
  const isRefused = async (queue: WorkflowHandle) => {
    const [answer] = await Promise.allSettled([queue.query(QUEUE_VIEW)]);
    if (answer.status === 'rejected') assert.ok(hasJustMoved(answer.reason), String(answer.reason));
    return answer.status === 'rejected';
  };
  const refused = Promise.all(queues.map(isRefused));
  await delay(500); // the query leaves the stopped worker after a second, and the signal's task as long after the signal
  await Promise.all(queues.map((queue) => queue.signal(ENQUEUE, soundTicket({ slots: 1 }))));
  const seen = Promise.all(semaphores.map((semaphore) => operatorOf(semaphore).inspect()));
  // On a busy machine, a Workflow Task may be there before a query, which is then answered; the replay judges what it did.
  assert.ok((await refused).includes(true), 'no query came before the Workflow Task');
  for (const { queue } of await seen) assert.equal(queue, 'running');
  await replay(...queues);
  await Promise.all(semaphores.map((semaphore) => operatorOf(semaphore).resize(1)));
});

test('a defect of SDK 1.24.0 spoils Workflows that others query, and the library gives its queries up before that', async (t) => {
  for (let attempt = 1; ; attempt++) {
    const { isLate, answers, spoilt, sound } = await queryWhileTimersRing(`${temporal.taskQueue}-takeover-${attempt}`);
    t.diagnostic(
      `queried for 5 s, they slept ${spoilt.join(', ')} ms; queried for ${QUERY_MS} ms, ${sound.join(', ')} ms`,
    );
    assert.ok(
      sound.every((ms) => ms >= SLEEP_MS),
      "the library's queries spoil Workflows",
    );
    const isSpoilt = !isLate && answers[0] === 5 && spoilt.some((ms) => ms < SLEEP_MS);
    if (!isSpoilt && attempt < ATTEMPTS) continue; // a busy machine does not get the moment right
    assert.ok(!isLate, 'the machine is too slow for this test');
    assert.deepEqual(answers, [5, 0]);
    assert.ok(
      isSpoilt,
      'all were given the right time: the SDK has mended it, and docs/troubleshooting.md need not tell of it',
    );
    return;
  }
});

/**
 * A query waits for the second after which permits and queues pass from a worker that has stopped to another one. Meanwhile a timer
 * fires. The other worker answers the query first, and gives the Workflow the timer with the time of the task before.
 */
async function queryWhileTimersRing(taskQueue: string) {
  const start = (count: number, sleepMs: number) =>
    Promise.all(
      Array.from({ length: count }, () =>
        temporal.client.workflow.start(workflows.sleeper, {
          ...startOptions(temporal, 'sleeper'),
          taskQueue,
          args: [sleepMs],
        }),
      ),
    );
  const stopped = await startWorker(taskQueue);
  const [queried, queriedByUs, others] = await Promise.all([start(5, SLEEP_MS), start(5, SLEEP_MS), start(60, 0)]);
  const ringsMs = Date.now() + SLEEP_MS;
  const sleepers = [...queried, ...queriedByUs];
  await Promise.all([...sleepers, ...others].map((handle) => handle.query(workflows.stage)));
  await startWorker(taskQueue);
  stopped.kill('SIGSTOP');
  // The tasks that it had asked for go to it and wait for ten seconds. Those of the sleepers are not to be among them.
  await Promise.all(others.map((handle) => handle.signal(workflows.finish)));
  const isLate = Date.now() > ringsMs - 1_500;

  await delay(Math.max(0, ringsMs - 200 - Date.now()));
  const query = (handles: typeof sleepers, withinMs: number) =>
    Promise.allSettled(
      handles.map((handle) => temporal.client.withDeadline(Date.now() + withinMs, () => handle.query(workflows.stage))),
    );
  const answers = await Promise.all([query(queried, 5_000), query(queriedByUs, QUERY_MS)]);
  await Promise.all(sleepers.map((handle) => handle.signal(workflows.finish)));
  const slept = async (handles: typeof sleepers) => await Promise.all(handles.map((handle) => handle.result()));
  return {
    isLate,
    answers: answers.map((all) => all.filter(({ status }) => status === 'fulfilled').length),
    spoilt: await slept(queried),
    sound: await slept(queriedByUs),
  };
}
