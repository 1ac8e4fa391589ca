import assert from 'node:assert/strict';
import { AsyncLocalStorage } from 'node:async_hooks';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { Context } from '@temporalio/activity';
import { Connection, isGrpcServiceError } from '@temporalio/client';
import { defaultPayloadConverter, type Payload, RawValue } from '@temporalio/common';
import { MockActivityEnvironment } from '@temporalio/testing';
import { Runtime } from '@temporalio/worker';
import { initMetricSink } from '@temporalio/worker/lib/workflow/metrics';
import { setActivator } from '@temporalio/workflow/lib/global-attributes';
import { Activator } from '@temporalio/workflow/lib/internals';
import { activate } from '@temporalio/workflow/lib/worker-interface';
import type { PermitPool } from '../../src/client';
import { ConnectionEnd, endingWith } from '../../src/client/server/ending-calls';
import { PERMIT_WORKFLOW, TURN } from '../../src/shared/protocol';
import { ActivityPools, limitActivities } from '../../src/worker/limit-activities';
import { handOverRaw } from '../../src/workflows/raw-signals';
import { releaseSignal } from '../../src/workflows/signals';

// Where the SDK has no public means, the library relies on how the SDK is made. These tests fail first when a release changes that, and
// say which file relied on it. `src/shared/duration.test.ts` compares the one thing that is written anew, the reader of durations.

const SRC = join(__dirname, '..', '..', 'src');

const MAY_IMPORT: readonly string[] = ['workflows/lenient-converter.ts'];

test("only one file of the library imports the SDK's internals", () => {
  const files = readdirSync(SRC, { recursive: true, encoding: 'utf8' }).filter(
    (file) => /\.tsx?$/.test(file) && !file.endsWith('.test.ts'),
  );
  const importing = files.filter((file) => /'@temporalio\/[a-z-]+\/lib\//.test(readFileSync(join(SRC, file), 'utf8')));
  assert.ok(importing.includes('workflows/lenient-converter.ts'));
  assert.deepEqual(
    importing.filter((file) => !MAY_IMPORT.includes(file)),
    [],
    "what is in a package's lib/ may move in any release of the SDK: find a public means, or use that of src/workflows/lenient-converter.ts",
  );
});

/** As the sandbox has it before it loads the modules. */
function activatorOf(workflowType: string): Activator {
  const known = { workflowType, namespace: 'default', workflowId: 'permit:pool:0' };
  const info = { ...known, historyLength: 3, historySize: 100 };
  const activator = new Activator({ info, randomnessSeed: [1], registeredActivityNames: new Set() } as never);
  return Object.assign(activator, { currentRandomStorage: new AsyncLocalStorage() }); // the sandbox has one for it
}

type Inbox = typeof import('../../src/workflows/inbox');
type Takeover = typeof import('../../src/workflows/takeover');

/** As in the sandbox: an activator first, then the modules, and then what the server sends. */
function inPermitWorkflow(run: (inbox: Inbox & Takeover, info: object) => void): void {
  const modules = ['lenient-converter', 'takeover', 'inbox'].map((name) =>
    require.resolve(`../../src/workflows/${name}`),
  );
  const forget = () => {
    for (const module of modules) delete require.cache[module];
  };
  const activator = activatorOf(PERMIT_WORKFLOW);
  setActivator(activator);
  forget();
  try {
    const inbox: Inbox = require('../../src/workflows/inbox');
    const takeover: Takeover = require('../../src/workflows/takeover');
    run({ ...inbox, ...takeover }, activator.info);
  } finally {
    forget();
    setActivator(undefined as never);
  }
}

const json = (text: string) => ({
  metadata: { encoding: Buffer.from('json/plain') },
  data: Buffer.from(text),
});

function signalled(name: string, text: string): Parameters<typeof activate>[0] {
  const signalWorkflow = { signalName: name, input: [json(text)] };
  return { jobs: [{ variant: 'signalWorkflow', signalWorkflow }] } as never;
}

test('in a Workflow of ours a signal goes past the SDK to the inbox, and one that nobody can decode comes as undefined', () => {
  inPermitWorkflow((inbox) => {
    const heard: unknown[] = [];
    inbox.onSignal(releaseSignal, (payload) => heard.push(payload));
    inbox.takeEarlySignals();
    activate(signalled('release', '{"a":1}'));
    assert.deepEqual(
      [heard, inbox.signalsTaken()],
      [[{ a: 1 }], 1],
      'src/workflows/inbox.ts takes signals by adding to `interceptors.internals` of the activator, which this SDK does not call',
    );
    assert.doesNotThrow(
      () => activate(signalled('release', 'no JSON')),
      'src/workflows/lenient-converter.ts replaces `payloadConverter` of the activator, by which this SDK does not decode',
    );
    assert.deepEqual(heard, [{ a: 1 }, undefined]);
  });
});

test("before SDK 1.24, the payload converter of a user's Workflow passes our signals on as they are, both ways", () => {
  const refuse = (): never => assert.fail('the converter of the user');
  const activator = Object.assign(activatorOf('own'), { payloadConverter: { toPayload: refuse, fromPayload: refuse } });
  setActivator(activator);
  handOverRaw([TURN]);
  setActivator(undefined as never);
  const decoded = (signalName: string, payload: Payload) => {
    const activation = { jobs: [{ signalWorkflow: { signalName, input: [payload] } }] };
    activator.interceptors.internals[0]?.activate?.({ activation, batchIndex: 0 }, () => undefined);
    return activator.payloadConverter.fromPayload(payload);
  };
  assert.deepEqual(decoded(TURN, json('no JSON')), RawValue.fromPayload(json('no JSON')));
  assert.throws(() => decoded('own', json('{}')), /the converter of the user/);
  const { payloadConverter } = activator;
  assert.equal(defaultPayloadConverter.fromPayload(payloadConverter.toPayload(new RawValue(1))), 1);
  assert.throws(() => payloadConverter.toPayload(1), /the converter of the user/);
});

const SIGNAL = { variant: 'signalWorkflow' as const, signalWorkflow: { signalName: 'none' } };
const UPDATE = { doUpdate: { name: 'none' } };
const query = (queryId: string) => ({ variant: 'queryWorkflow', queryWorkflow: { queryId, queryType: 'none' } });

test('an update that comes as a worker takes a Workflow of ours over is refused, and the next one is taken', () => {
  inPermitWorkflow(({ refuseWhenMoved }) => {
    const comes = (isReplaying: boolean, job: object) => activate({ isReplaying, jobs: [job] } as never);
    refuseWhenMoved(); // a new run has not moved
    comes(true, SIGNAL);
    comes(false, SIGNAL);
    comes(false, query('of the task'));
    assert.throws(() => refuseWhenMoved(), { type: 'JustMovedError' });
    assert.throws(() => comes(false, query('legacy_query')), /^Error: JustMovedError/);
  });
  inPermitWorkflow(({ refuseWhenMoved }) => {
    const comes = (isReplaying: boolean, job: object) => activate({ isReplaying, jobs: [job] } as never);
    comes(true, SIGNAL);
    comes(false, query('legacy_query')); // all has been replayed
    comes(false, SIGNAL);
    refuseWhenMoved();
    comes(false, query('legacy_query'));
  });
});

test('the Workflow Task after one in which an update was refused fails if the server has discarded that one', () => {
  const afterRefusal = (historyLength: number, ...jobs: object[]) =>
    inPermitWorkflow(({ refuseWhenMoved, noteActivation }) => {
      noteActivation({ isReplaying: true, jobs: [SIGNAL] }, { historyLength: 9, historySize: 0 });
      noteActivation({ isReplaying: false, jobs: [UPDATE] }, { historyLength: 14, historySize: 0 });
      assert.throws(() => refuseWhenMoved(), { type: 'JustMovedError' });
      noteActivation({ isReplaying: false, jobs }, { historyLength, historySize: 0 });
      refuseWhenMoved(); // the next update is taken
    });
  assert.throws(() => afterRefusal(14, UPDATE), /^Error: JustMovedError/);
  assert.throws(() => afterRefusal(16, SIGNAL, SIGNAL, UPDATE), /^Error: JustMovedError/);
  afterRefusal(17, UPDATE); // completed, scheduled, started
  afterRefusal(19, SIGNAL, SIGNAL, UPDATE);
});

test('news of no Workflow Task, which only a query brings to a Workflow of ours, fails, but not in a replay', () => {
  inPermitWorkflow((_inbox, info) => {
    const comes = (isReplaying: boolean, historyLength: number, historySize: number) => {
      Object.assign(info, { historyLength, historySize });
      activate({ isReplaying, jobs: [SIGNAL] } as never);
    };
    comes(true, 3, 100);
    comes(true, 9, 200);
    comes(true, 12, 200);
    comes(false, 12, 200); // of the same task
    assert.throws(() => comes(false, 15, 200), /^Error: JustMovedError/);
    comes(false, 15, 0); // a server that does not count bytes
    comes(false, 18, 0);
  });
});

test('a worker hears of signals by a method of the Runtime, which its class has', () => {
  const { registerShutdownSignalCallback: register } = Runtime.prototype;
  const worker = readFileSync(require.resolve('@temporalio/worker/lib/worker.js'), 'utf8');
  const because = 'src/worker/beside.ts covers this method, so that a permit worker outlives the signal';
  assert.equal(typeof register, 'function', because);
  assert.match(worker, /this\.runtime\.registerShutdownSignalCallback\(/, because);
});

test('a worker hears what its Workflows say to a gauge by a sink among its options', () => {
  const because = 'src/worker/dead-waiters.ts hears by this sink in which lines somebody waits';
  const set: unknown[] = [];
  const createGauge = (name: string) => ({ set: (value: number, labels: object) => set.push([name, value, labels]) });
  const { setMetricGaugeValue: gauge } = initMetricSink({ createGauge } as never).__temporal_metrics;
  gauge.fn({} as never, 'waiters', 'int', undefined, undefined, 2, { resource: 'pool' });
  assert.deepEqual(set, [['waiters', 2, { resource: 'pool' }]], because);
  const worker = readFileSync(require.resolve('@temporalio/worker/lib/worker.js'), 'utf8');
  assert.match(worker, /const \{ sinks \} = this\.options/, because);
  assert.match(worker, /sink\?\.fn\(call\.workflowInfo, /, because);
});

test('an activity under a limit sees an abort for its permit by the signal of its context, which is as before afterwards', async () => {
  const lost = new AbortController();
  const pool = { withPermit: (fn: (permit: object) => unknown) => fn({ signal: lost.signal, runId: 'run' }) };
  const pools = new ActivityPools({ call: pool as unknown as PermitPool });
  const environment = new MockActivityEnvironment({ activityType: 'call' }, { interceptors: [limitActivities(pools)] });
  const { context } = environment;
  const { cancellationSignal } = context;
  const seen = await environment.run(async () => {
    const { cancellationSignal: signal } = Context.current();
    const reason = new Error('lost');
    lost.abort(reason);
    const slept = await Context.current()
      .sleep('1 minute')
      .catch((error: unknown) => error);
    return [signal.aborted, signal.reason === reason, (slept as Error).name];
  });
  const because =
    "src/worker/limit-activities.ts redefines `cancellationSignal` and `cancelled` of an activity's Context, and this SDK's activities no longer see it";
  assert.deepEqual(seen, [true, true, 'CancelledFailure'], because);
  assert.equal(context.cancellationSignal, cancellationSignal, because);
  assert.ok(!cancellationSignal.aborted, because);
});

test("a call's end reaches the SDK's retries, and a connection tells of its close: src/client/server/ending-calls.ts", async () => {
  const connection = Connection.lazy({ address: '127.0.0.1:1' });
  const end = ConnectionEnd.of(connection);
  const call = new AbortController();
  const answer = endingWith(call.signal, () => connection.workflowService.getSystemInfo({}));
  setTimeout(() => call.abort(), 100); // it waits between two tries then
  await assert.rejects(answer, (error) => isGrpcServiceError(error) && error.details === 'given up');
  const ofClosed = endingWith(new AbortController().signal, () => connection.workflowService.getSystemInfo({}));
  const closed = new Promise<void>((resolve) => end.whenClosed(resolve));
  setTimeout(() => void connection.close(), 100);
  await closed;
  assert.ok(end.isClosed);
  await assert.rejects(
    ofClosed,
    (error) => isGrpcServiceError(error) && error.details === 'Channel has been shut down',
  );
});
