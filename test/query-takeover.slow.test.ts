import assert from 'node:assert/strict';
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { endWithTests } from './support/children';
import { startOptions } from './support/holders';
import { useTemporal } from './support/temporal';
import * as workflows from './support/workflows';

const temporal = useTemporal();

/** A query waits for a worker. Meanwhile a signal comes. The worker that then takes the Workflow over may answer the query first. */
test('a defect of SDK 1.24.0 that docs/reliability.md tells of: when this fails, the SDK has mended it', async (t) => {
  const taskQueue = `${temporal.taskQueue}-takeover`;
  const address = temporal.env.address;
  const startWorker = async () => {
    const worker = endWithTests(
      fork(require.resolve('./support/worker-main'), [address, taskQueue], { execArgv: ['--import', 'tsx'] }),
    );
    await once(worker, 'message');
    return worker;
  };
  const first = await startWorker();
  const start = () =>
    temporal.client.workflow.start(workflows.signalClock, { ...startOptions(temporal, 'clock'), taskQueue });
  const handles = await Promise.all(Array.from({ length: 10 }, start));
  await delay(1_500);
  first.kill('SIGKILL');
  await once(first, 'exit');
  const queries = handles.map((handle) => handle.query(workflows.stage));
  await delay(1_500);
  await Promise.all(handles.map((handle) => handle.signal(workflows.finish)));
  await startWorker();
  await Promise.all(queries);
  const sawMs = await Promise.all(handles.map((handle) => handle.result()));
  t.diagnostic(`milliseconds from the start to the signal, as each Workflow saw them: ${sawMs.join(', ')}`);
  assert.ok(
    sawMs.some((ms) => ms < 1_000),
    'all were given the right time',
  );
});
