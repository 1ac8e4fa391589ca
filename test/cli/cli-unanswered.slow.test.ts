import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { SemaphoreClient } from '../../src/client';
import { useRunCommand } from '../support/run-command';
import { useTemporal } from '../support/temporal';
import { nobodyPolls, taskQueueOfNobody } from '../support/unpolled';

// What `run` says where no worker carries out its permits.

const temporal = useTemporal({ shared: true });
const { run, start, gated } = useRunCommand(temporal);

/** A worker takes up what the others have left, and the slot comes free. */
async function assertComesFree(resource: string, taskQueue: string): Promise<void> {
  await temporal.worker({ taskQueue });
  await (await new SemaphoreClient(temporal.client, resource, { capacity: 1, taskQueue }).acquire()).release();
}

test('without any permit worker, run says so while its command runs, and when it has ended; others exit 69, not 75', async () => {
  const [resource, taskQueue] = [temporal.resource(), taskQueueOfNobody()];
  const { command, open } = gated('exit 3');
  const holder = start({ resource, taskQueue }, ...command);
  await holder.says(/(ready)/);
  const kept = `no worker answers on task queue "${taskQueue}". The command runs, but slot "0" of "${resource}" will come free only when a permit worker runs. Start one: temporal-semaphore worker --task-queue ${taskQueue}\n`;
  await holder.says(new RegExp(`(${kept.replaceAll('.', '\\.')})`));

  for (const flags of [['--timeout', '3s'], ['--try']]) {
    const { code, stdout, stderr } = await run({ resource, taskQueue, flags }, 'echo', 'ran');
    assert.deepEqual([code, stdout], [69, ''], stderr);
    assert.ok(stderr.includes(`Could not acquire a permit of "${resource}": ${nobodyPolls(taskQueue)}`), stderr);
  }

  open();
  await holder.says(
    /(: the command has ended with exit code 3, but slot "0" of .* is not free yet: no worker answers on task queue ".*"\. run waits for the release until the lease ends, in \d+\.\d s at the latest\.)/,
  );
  assert.equal(await holder.exit, 3);
  await assertComesFree(resource, taskQueue);
});

test('where the permit worker has just stopped, and the server still lists its pollers, a wait and a release say that no worker answers', async () => {
  const [resource, taskQueue] = [temporal.resource(), `permits-${randomUUID()}`];
  const worker = await temporal.worker({ taskQueue });
  const { command, open } = gated('true');
  const holder = start({ resource, taskQueue, flags: ['--lease', '9s'] }, ...command);
  await holder.says(/(ready)/);
  await worker.stop();

  const waiter = start({ resource, taskQueue }, 'echo', 'ran');
  await waiter.says(
    /(: 1 of 1 held, and no worker answers on task queue ".*": perhaps the permit worker has stopped \(namespace )/,
  );
  waiter.signal('SIGINT');
  assert.equal(await waiter.exit, 130);

  open();
  await holder.says(/(: the command has ended with exit code 0, but .* no worker answers on task queue )/);
  await holder.says(
    /(slot "0" of ".*" is not free yet: no worker answers on .* start one: temporal-semaphore worker )/,
  );
  assert.equal(await holder.exit, 0);
  await assertComesFree(resource, taskQueue);
});

test('where a worker runs, a command that takes longer, with many renewals, hears nothing', async () => {
  const flags = ['--lease', '3s', '--renew-every', '500ms'];
  const ended = await run({ resource: temporal.resource(), flags }, 'sleep', '8');
  assert.deepEqual(ended, { code: 0, stdout: '', stderr: '' });
});
