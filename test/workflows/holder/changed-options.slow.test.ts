import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { WorkflowHandle } from '@temporalio/client';
import { Worker } from '@temporalio/worker';
import { DeterminismViolationError } from '@temporalio/workflow';
import type { Finding } from '../../../src/cli/resource-findings';
import { permitId } from '../../../src/shared/permit-id';
import { REVOKE } from '../../../src/shared/protocol';
import type { FormerOptions, SemaphoreOptions } from '../../../src/workflow';
import { CliHost } from '../../support/cli-host';
import type { deployed } from '../../support/deployed-workflows';
import { DeployedApplication } from '../../support/deploys';
import { finish } from '../../support/finishing';
import { assertFails } from '../../support/holders';
import { assertSafe, eventually, queueView, until, untilWaiting, useTemporal } from '../../support/temporal';

// A deploy of Workflow code that changes the options of a semaphore, while Workflows hold and wait.

const temporal = useTemporal({ shared: true });
const host = new CliHost();

type Handle = WorkflowHandle<typeof deployed>;

/** How many permits it has had, by its history: a query can be answered by a Workflow Task that times out. */
async function permitsHad(handle: Handle): Promise<number> {
  const { events } = await handle.fetchHistory();
  return (events ?? []).filter(({ workflowPropertiesModifiedEventAttributes: memo }) => memo).length;
}

async function untilHeld(handle: Handle): Promise<void> {
  await until(async () => (await permitsHad(handle)) > 0);
}

async function end(...handles: Handle[]): Promise<string[][]> {
  return await Promise.all(
    handles.map(async (handle) => {
      await handle.signal(finish);
      return await handle.result();
    }),
  );
}

/** The patches that its history is marked with. */
async function marksOf(handle: Handle): Promise<string[]> {
  const { events } = await handle.fetchHistory();
  return (events ?? []).flatMap(({ markerRecordedEventAttributes: marker }) => {
    const [data] = marker?.details?.['patch-data']?.payloads ?? [];
    return data ? JSON.parse(Buffer.from(data.data ?? []).toString()).id : [];
  });
}

/** But for one that a signal overtook. */
async function assertNoTaskFailed(handle: Handle): Promise<void> {
  const { events } = await handle.fetchHistory();
  const failed = (events ?? []).flatMap(({ workflowTaskFailedEventAttributes: failed }) => failed ?? []);
  const messages = failed.map(({ failure }) => failure?.message).filter((message) => message !== 'UnhandledCommand');
  assert.deepEqual(messages, [], handle.workflowId);
}

test('deployed with 3, 5 and 4 permits: no Workflow Task fails, and each acquire goes by the number with which it began', async () => {
  const resource = temporal.resource();
  await using app = new DeployedApplication(temporal, resource);
  const patch = (capacity: number) => `temporal-semaphore:${resource}:${capacity}`;

  await app.deploy({ capacity: 3 });
  const twice = await app.start({ times: 2 });
  const ofThree = [twice, await app.start(), await app.start()];
  for (const handle of ofThree) await untilHeld(handle);
  ofThree.push(await app.start());
  await untilWaiting(temporal.client, resource, 1);

  await app.deploy({ capacity: 5, before: [{ capacity: 3 }] });
  const ofFive = [await app.start(), await app.start()];
  for (const handle of ofFive) await untilHeld(handle);
  ofFive.push(await app.start());
  await untilWaiting(temporal.client, resource, 2);

  await app.deploy({ capacity: 4, before: [{ capacity: 5 }, { capacity: 3 }] });
  const ofFour = [await app.start()];
  await untilWaiting(temporal.client, resource, 3);
  await twice.signal(finish); // it lines up again, unless its first try finds the slot that it has released
  await until(async () => {
    const { tickets = [] } = (await queueView(temporal.client, resource)) ?? {};
    return tickets.some(({ waiter }) => waiter.workflowId === twice.workflowId) || (await permitsHad(twice)) === 2;
  });

  const [, ...others] = ofThree;
  await end(...others, ...ofFive, ...ofFour);
  const [had = []] = await end(twice);
  assert.equal(had.length, 2);
  assert.ok(Number(had[1]) < 4, `${had}`);
  for (const handle of others) assert.deepEqual(await marksOf(handle), []);
  for (const handle of ofFive) assert.deepEqual(await marksOf(handle), [patch(5)]);
  for (const handle of [twice, ...ofFour]) assert.deepEqual(await marksOf(handle), [patch(4)]);
  const all = [...ofThree, ...ofFive, ...ofFour];
  for (const handle of all) await assertNoTaskFailed(handle);

  // Once the runs of 3 and of 5 have ended, their numbers may go; runs that are marked replay without any.
  const last = await app.bundle({ capacity: 4 });
  for (const handle of ofFour) {
    await Worker.runReplayHistory({ workflowBundle: last }, await handle.fetchHistory(), handle.workflowId);
  }
  await assertSafe(temporal.client, resource, 5);
});

test('without before, the Workflow Tasks of holders fail: doctor and why name them, and the remedy, which lets them go on', async () => {
  const resource = temporal.resource();
  await using app = new DeployedApplication(temporal, resource);
  await app.deploy({ capacity: 1 });
  const holder = await app.start();
  await untilHeld(holder);
  const waiter = await app.start();
  await untilWaiting(temporal.client, resource, 1);

  await app.deploy({ capacity: 900 });
  await holder.signal(finish);
  const said = `${holder.workflowId}, which holds slot "0" of "${resource}", can't go on: its Workflow Task fails: [TMPRL1100] `;
  const findingsOf = async (...command: string[]) => {
    const { stdout } = await host.run([...command, '--address', temporal.env.address, '--json']);
    const answer: Finding[] | { findings: Finding[] } = JSON.parse(stdout);
    return 'findings' in answer ? answer.findings : answer;
  };
  await eventually(async () => {
    for (const command of [
      ['doctor', '--task-queue', temporal.taskQueue],
      ['why', holder.workflowId, '--resource', resource],
      ['why', waiter.workflowId, '--resource', resource],
    ]) {
      const { is, advice } = (await findingsOf(...command)).find(({ what }) => what.startsWith(said)) ?? assert.fail();
      assert.equal(is, 'bad');
      assert.match(advice ?? '', /name the former value in `before`/);
    }
  });
  // Its permit has ended, as with its lease.
  await temporal.client.workflow.getHandle(permitId({ resource, slot: '0' })).signal(REVOKE);
  await eventually(async () => {
    const [own] = await findingsOf('why', holder.workflowId, '--resource', resource);
    assert.match(own?.what ?? '', new RegExp(`^${holder.workflowId} can't go on: its Workflow Task fails: `));
  });

  await app.deploy({ capacity: 900, before: [{ capacity: 1 }] });
  await assertFails(holder.result(), 'PermitLostError', /revoked/);
  await untilHeld(waiter);
  await end(waiter);
});

/** Options that a deploy changes, and what a run says whose acquire began before. */
const KEYED = { capacity: 3, perKey: 2 };
const LONG_PACE = { capacity: 3, pace: { every: '20s' } } as const;
const SHORT_PACE = { capacity: 3, pace: { every: '1ms' } } as const;
const CHANGES: [is: string, was: SemaphoreOptions, now: SemaphoreOptions, former: FormerOptions][] = [
  ['capacity', { capacity: 3 }, { capacity: 900 }, { capacity: 3 }],
  ['capacity for slots', { capacity: 3 }, { slots: ['a', 'b'] }, { capacity: 3 }],
  ['slots', { slots: ['a', 'b'] }, { slots: ['c'] }, { slots: ['a', 'b'] }],
  ['perKey', { capacity: 3, perKey: 900 }, KEYED, { perKey: 900 }],
  ['the first perKey', { capacity: 3 }, KEYED, { perKey: undefined }],
  ['fair', { capacity: 3 }, { capacity: 3, fair: true }, { fair: false }],
  ['pace', { capacity: 3 }, { capacity: 3, pace: { every: '1s' } }, { pace: undefined }],
  ['a pace for a shorter one', LONG_PACE, SHORT_PACE, LONG_PACE],
  ['renewEvery', { capacity: 3, renewEvery: false }, { capacity: 3 }, { renewEvery: false }],
];

for (const [is, was, now, former] of CHANGES) {
  test(`${is} can be changed with before alone, and what is no part of a history at will`, async () => {
    const resource = temporal.resource();
    await using app = new DeployedApplication(temporal, resource);
    await app.deploy(was);
    const histories: Awaited<ReturnType<Handle['fetchHistory']>>[] = [];
    for (const asSet of [false, true]) {
      const handle = await app.start({ key: 'acme', asSet });
      await untilHeld(handle);
      await end(handle);
      histories.push(await handle.fetchHistory());
    }
    const replay = async (options: SemaphoreOptions) => {
      const workflowBundle = await app.bundle(options);
      for (const history of histories) await Worker.runReplayHistory({ workflowBundle }, history, 'old');
    };
    await assert.rejects(replay(now), DeterminismViolationError);
    await replay({ ...now, before: [{ capacity: 7 }, former] });
    const others = { lease: '1 hour', maxHold: '2 hours', taskQueue: 'another', recheckAfter: '1m' } as const;
    await replay({ ...was, ...others, ...(was.renewEvery === false ? {} : { renewEvery: '7m' }) });
  });
}

test('a run that is marked goes by the pace with which its acquire began, when a deploy shortens it', async () => {
  const resource = temporal.resource();
  await using app = new DeployedApplication(temporal, resource);
  await app.deploy({ ...LONG_PACE, before: [{ pace: undefined }] });
  const handle = await app.start();
  await untilHeld(handle);
  await end(handle);
  const history = await handle.fetchHistory();
  const replay = async (options: SemaphoreOptions) =>
    await Worker.runReplayHistory({ workflowBundle: await app.bundle(options) }, history, handle.workflowId);
  await assert.rejects(replay(SHORT_PACE), DeterminismViolationError);
  await replay({ ...SHORT_PACE, before: [LONG_PACE] });
});
