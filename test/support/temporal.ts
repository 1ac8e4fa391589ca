import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, afterEach, before } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { Client, WorkflowNotFoundError } from '@temporalio/client';
import {
  DefaultLogger,
  type LogEntry,
  Runtime,
  type TelemetryOptions,
  Worker,
  type WorkerOptions,
  type WorkflowBundle,
} from '@temporalio/worker';
import * as activities from '../../scripts/support/activities';
import {
  type HoldInterval,
  mostAtOnce,
  overlaps,
  permitsQuery,
  type ReportedHold,
  readHoldIntervals,
  strays,
} from '../../scripts/support/holder-intervals';
import { SHARED_SERVER } from '../../scripts/support/prepared';
import {
  makeNamespace,
  startServer,
  startServerFrom,
  type TemporalServer,
} from '../../scripts/support/temporal-server';
import { bundleWorkflows } from '../../scripts/support/workflow-bundles';
import { permitId, queueId, waiterId } from '../../src/shared/permit-id';
import { QUEUE_VIEW, type QueueView, type ShownView } from '../../src/shared/protocol';
import { readQueueView } from '../../src/shared/queue-view';
import { PERMIT_WORKER_DEFAULTS } from '../../src/worker/permit-worker';
import { toldAtAnyLimit, toldAtLimit } from './limits';

/** A real server, which files may share, and a worker for one test file. Its resources are checked for leaked permits after every test. */
export interface Temporal {
  readonly env: TemporalServer;
  readonly client: Client;
  readonly taskQueue: string;
  readonly bundle: WorkflowBundle;
  /** A resource name of this test's own. No permit of it may be left when the test ends. */
  resource(name?: string): string;
  /** Starts another worker. When the test has ended, and its resources are checked, it is stopped. */
  worker(
    options?: Pick<
      WorkerOptions,
      'taskQueue' | 'activities' | 'maxCachedWorkflows' | 'workerDeploymentOptions' | 'workflowBundle'
    >,
  ): Promise<RunningWorker>;
}

export interface RunningWorker {
  stop(): Promise<void>;
}

/** What Workflows and workers of this process have warned of lately. */
export const warnings: LogEntry[] = [];

const MOST_WARNINGS = 1_000;

function log(entry: LogEntry): void {
  if (entry.level !== 'WARN') console.error(entry.level, entry.message, entry.meta);
  else if (warnings.push(entry) > MOST_WARNINGS) warnings.shift();
}

const WORKFLOWS = require.resolve('./workflows');

interface UseOptions {
  /**
   * The server may be one that other files use at the same time. Not for tests that look at all that is there, leave what
   * would disturb others, measure the server or load it heavily.
   * @default false
   */
  shared?: boolean;
  /** For the embedded server, as `key=JSON`. */
  dynamicConfig?: string[];
  /** Where all that it makes lives; it makes the namespace too. Not with `shared`. @default the server's own */
  namespace?: string;
  /** Whether an embedded server counts what it does. @default false */
  metrics?: boolean;
  /** For the SDK's runtime. */
  telemetry?: () => Promise<TelemetryOptions>;
}

/** The server, with a client of a new namespace. */
async function inNamespace(env: TemporalServer, namespace: string): Promise<TemporalServer> {
  await makeNamespace(env.connection, namespace);
  return { ...env, client: new Client({ connection: env.connection, namespace }) };
}

/** That of all files which share this process. */
let sharedTemporal: Temporal | undefined;

/** Call it at the top of a test file. */
export function useTemporal(options: UseOptions = {}): Temporal {
  if (!options.shared) return hookTemporal(options);
  sharedTemporal ??= hookTemporal(options);
  return sharedTemporal;
}

function hookTemporal({ dynamicConfig = [], namespace, shared = false, metrics, telemetry }: UseOptions): Temporal {
  let env: TemporalServer;
  let bundle: WorkflowBundle;
  let own: RunningWorker;
  const taskQueue = `test-${randomUUID()}`;
  toldAtAnyLimit(() => env && runningOn(env.client, taskQueue));
  let resources: string[] = [];
  let others: RunningWorker[] = [];

  const startWorker: Temporal['worker'] = async (options) => {
    const made = await Worker.create({
      connection: env.nativeConnection,
      namespace,
      workflowBundle: bundle,
      activities,
      taskQueue,
      ...PERMIT_WORKER_DEFAULTS,
      ...options,
      shutdownForceTime: '5s',
    });
    const running = made.run();
    return {
      async stop() {
        if (made.getState() === 'RUNNING') made.shutdown();
        await running;
      },
    };
  };

  const worker: Temporal['worker'] = async (options) => {
    const other = await startWorker(options);
    others.push(other);
    return other;
  };

  before(async () => {
    Runtime.install({ logger: new DefaultLogger('WARN', log), telemetryOptions: await telemetry?.() });
    const address = shared ? process.env[SHARED_SERVER] : undefined;
    env = address ? await startServerFrom({ address }) : await startServer({ dynamicConfig, metrics });
    if (namespace !== undefined) env = await inNamespace(env, namespace);
    bundle = await bundleWorkflows(WORKFLOWS);
    own = await startWorker();
  });

  afterEach(async () => {
    const [used, extra] = [resources, others];
    [resources, others] = [[], []];
    try {
      for (const resource of used) await assertNoPermitLeft(env.client, resource);
    } finally {
      for (const { stop } of extra) await stop();
    }
  });

  after(async () => {
    await own?.stop();
    await env?.teardown();
  });

  return {
    get env() {
      return env;
    },
    get client() {
      return env.client;
    },
    get bundle() {
      return bundle;
    },
    taskQueue,
    resource(name = 'pool') {
      const resource = `${name}-${randomUUID().slice(0, 8)}`;
      resources.push(resource);
      return resource;
    },
    worker,
  };
}

/** How many events of a Workflow are told of a test that hangs. */
const LAST_EVENTS = 12;

/** The Workflows of a task queue that run, with what each waits for, for a test that hangs. */
async function runningOn(client: Client, taskQueue: string): Promise<string> {
  const query = `TaskQueue = ${JSON.stringify(taskQueue)} AND ExecutionStatus = "Running"`;
  const lines: string[] = [];
  for await (const { workflowId, type, memo } of client.workflow.list({ query })) {
    const handle = client.workflow.getHandle(workflowId);
    const { raw } = await handle.describe();
    const pending = [
      ...(raw.pendingActivities ?? []).map((activity) => `activity ${activity.activityType?.name}`),
      ...(raw.pendingChildren ?? []).map((child) => `child ${child.workflowId}`),
      ...(raw.pendingWorkflowTask ? ['a Workflow Task'] : []),
    ];
    lines.push(`    ${type} ${workflowId}: ${pending.join(', ') || 'nothing pending'}; memo ${JSON.stringify(memo)}`);
    const { events } = await handle.fetchHistory();
    for (const event of (events ?? []).slice(-LAST_EVENTS)) lines.push(`      ${JSON.stringify(event).slice(0, 300)}`);
  }
  return ['its Workflows that run:', ...lines].join('\n');
}

/** What the wait queue of `resource` remembers; `undefined` when none runs. */
export async function queueView(client: Client, resource: string): Promise<QueueView | undefined> {
  const queue = client.workflow.getHandle(queueId(resource));
  const running = await queue.describe().then(
    ({ status }) => status.name === 'RUNNING',
    () => false,
  );
  if (!running) return undefined;
  const view = await queue.query<ShownView>(QUEUE_VIEW);
  return view.rows ? readQueueView(resource, view) : (view as QueueView); // as it was sent, where that can be compared
}

/** Waits until exactly this many wait in line, turns under way not counted. */
export async function untilWaiting(client: Client, resource: string, count: number): Promise<QueueView> {
  return await eventually(async () => {
    const view = (await queueView(client, resource)) ?? { tickets: [], slots: [], shares: [] };
    const offered = view.slots.map(([, state]) => (state.at === 'offered' ? state.ticketId : undefined));
    assert.equal(view.tickets.filter(({ id }) => !offered.includes(id)).length, count);
    return view;
  });
}

/** Waits until no permit and no client's waiter of `resource` runs; fails when one still does after a while. */
export async function assertNoPermitLeft(client: Client, resource: string): Promise<void> {
  const waiters = `WorkflowId STARTS_WITH ${JSON.stringify(waiterId(resource, ''))}`;
  const query = `(${permitsQuery(resource)} OR ${waiters}) AND ExecutionStatus = "Running"`;
  await eventually(async () => {
    const left: string[] = [];
    for await (const run of client.workflow.list({ query })) left.push(`${run.workflowId} (${run.runId})`);
    assert.deepEqual(left, [], `permits or waiters of ${resource} were leaked`);
  });
}

/**
 * Waits until visibility, which lags behind, tells how the last permit of each slot ended: of the slots that it tells of, and of
 * the first `capacity`.
 */
export async function untilListed(client: Client, resource: string, capacity: number): Promise<void> {
  const counted = Array.from({ length: capacity }, (_, slot) => permitId({ resource, slot: String(slot) }));
  await eventually(async () => {
    const ended = new Map(counted.map((workflowId) => [workflowId, new Set<string>()]));
    for await (const { workflowId, runId, status } of client.workflow.list({ query: permitsQuery(resource) })) {
      const runs = ended.get(workflowId) ?? new Set();
      ended.set(workflowId, status.name === 'RUNNING' ? runs : runs.add(runId));
    }
    for (const [workflowId, runs] of ended) {
      const last = await client.workflow.getHandle(workflowId).describe().catch(undefinedIfNone);
      assert.ok(!last || runs.has(last.runId), `visibility does not tell how ${workflowId}, run ${last?.runId}, ended`);
    }
  });
}

function undefinedIfNone(error: unknown): undefined {
  if (!(error instanceof WorkflowNotFoundError)) throw error;
}

/** Ends the queue of `resource`, which stays for a while after its last waiter was served. */
export async function endQueue(client: Client, resource: string): Promise<void> {
  await client.workflow
    .getHandle(queueId(resource))
    .terminate()
    .catch(() => undefined); // there may be none
}

/**
 * The permits of `resource` that run, by the server's own word for each ID that visibility has told. It tells of a new one late,
 * so ask {@link eventually}.
 */
export async function permitsRunning(client: Client, resource: string): Promise<string[]> {
  const found: string[] = [];
  for await (const { workflowId, runId } of client.workflow.list({ query: permitsQuery(resource) })) {
    const { status } = await client.workflow.getHandle(workflowId, runId).describe();
    if (status.name === 'RUNNING') found.push(workflowId);
  }
  return found;
}

/** Reads all holds of `resource` from the histories, and checks promise 1 on them. */
export async function assertSafe(
  client: Client,
  resource: string,
  capacity: number,
  reported?: readonly ReportedHold[],
): Promise<HoldInterval[]> {
  await assertNoPermitLeft(client, resource);
  await untilListed(client, resource, capacity);
  const holds = await readHoldIntervals(client, resource, { reported });
  assert.deepEqual(strays(holds), [], `holders of ${resource} worked without a permit`);
  assert.deepEqual(overlaps(holds), [], `two holders of one slot of ${resource} at once`);
  const most = mostAtOnce(holds);
  assert.ok(most <= capacity, `${most} permits of ${resource} at once, capacity ${capacity}`);
  return holds;
}

/**
 * Waits until `condition` holds. Unlike `assert.ok` in {@link eventually}, it does not have Node read the source for a message
 * each time that it fails: in a transpiled file, that can take minutes.
 */
export async function until(condition: () => unknown, withinMs?: number): Promise<void> {
  await eventually(async () => assert.ok(await condition(), `not yet: ${condition}`), withinMs);
}

/** How long {@link eventually} waits between two tries, at the most. */
const MOST_PAUSE_MS = 300;

/** Tries `check` until it passes; gives its last failure when `withinMs` have passed, which a busy machine may need. */
export async function eventually<T>(check: () => Promise<T>, withinMs = 60_000): Promise<T> {
  const deadline = Date.now() + withinMs;
  let last: unknown;
  const tryOn = async () => {
    // Each try is work for the server, the worker and us: six tests that wait at once must not keep the machine busy.
    for (let pauseMs = 25; ; pauseMs = Math.min(MOST_PAUSE_MS, 1.5 * pauseMs)) {
      try {
        return await check();
      } catch (error) {
        last = error;
        if (Date.now() > deadline) throw error;
        await delay(pauseMs);
      }
    }
  };
  return await toldAtLimit(() => `${check}: ${last}`, tryOn);
}
