import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { type ApplicationFailure, CancelledFailure } from '@temporalio/common';
import type { ReportedHold } from '../scripts/support/holder-intervals';
import {
  acquireAll,
  InvalidOptionsError,
  type PermitLostError,
  PermitTimeoutError,
  SemaphoreClient,
  withPermits,
} from '../src/client';
import { permitId } from '../src/shared/permit-id';
import { CliProcess } from './support/cli-process';
import { assertFails, failureOf, startHolding, startOptions, untilAt } from './support/holders';
import {
  assertNoPermitLeft,
  assertSafe,
  eventually,
  permitsRunning,
  untilWaiting,
  useTemporal,
} from './support/temporal';
import * as workflows from './support/workflows';

const temporal = useTemporal({ shared: true });

type Pools = workflows.SetInput['pools'];

const one = { capacity: 1 };

/** Two resources of this test's own; the first is claimed first. */
function twoResources(): [a: string, b: string] {
  return [temporal.resource('a'), temporal.resource('b')];
}

function startSet(input: workflows.SetInput) {
  return temporal.client.workflow.start(workflows.setHolder, { ...startOptions(temporal, 'set'), args: [input] });
}

function poolsOf(resources: string[], semaphore: workflows.SemaphoreOptions = one): Pools {
  return resources.map((resource) => ({ resource, semaphore }));
}

function clientOf(resource: string, options: workflows.SemaphoreOptions = one): SemaphoreClient {
  return new SemaphoreClient(temporal.client, resource, { taskQueue: temporal.taskQueue, ...options });
}

/** The resource that a failed Workflow's error names. */
function resourceOf({ details }: ApplicationFailure): unknown {
  return (details?.[0] as { resource?: string } | undefined)?.resource;
}

test('in whatever order Workflows and clients write their resources, none blocks another for ever', async () => {
  const [a, b] = twoResources();
  const semaphore = { capacity: 2 };
  const reported: ReportedHold[] = [];
  const client = async (resources: string[]) => {
    const pools = resources.map((resource) => clientOf(resource, semaphore));
    let holds: ReportedHold[] = [];
    await withPermits(pools, async (permits) => {
      assert.deepEqual(
        permits.map(({ resource }) => resource),
        resources,
      );
      holds = permits.map(({ runId }) => ({ runId, fromMs: Date.now() }));
      await delay(20);
      for (const hold of holds) hold.toMs = Date.now();
    });
    reported.push(...holds);
  };
  const workflow = async (resources: string[]) => {
    const slots = await (await startSet({ pools: poolsOf(resources, semaphore), holdMs: 20 })).result();
    assert.deepEqual(
      slots.map(({ resource }) => resource),
      resources,
    );
  };
  const sets = Array.from({ length: 3 }, () => [
    workflow([a, b]),
    workflow([b, a]),
    workflow([b]),
    client([a, b]),
    client([b, a]),
  ]);
  await Promise.all(sets.flat());
  const holds = [
    ...(await assertSafe(temporal.client, a, 2, reported)),
    ...(await assertSafe(temporal.client, b, 2, reported)),
  ];
  assert.equal(holds.length, 12 + 15);
});

test('while a Workflow waits for the second it renews the first, and keeps its age in the second line', async () => {
  const [a, b] = twoResources();
  const { handle: blocker } = await startHolding(temporal, { resource: a, semaphore: one });
  const { handle: other } = await startHolding(temporal, { resource: b, semaphore: one });
  const set = await startSet({ pools: [...poolsOf([b]), { resource: a, semaphore: { ...one, lease: '6s' } }] });
  await untilWaiting(temporal.client, a, 1);
  const beforeMs = Date.now();
  await blocker.signal(workflows.finish);
  const view = await untilWaiting(temporal.client, b, 1);
  assert.ok((view.tickets[0]?.sinceMs ?? beforeMs) < beforeMs, 'its age counts from before it had the first');

  const first = temporal.client.workflow.getHandle(permitId({ resource: a, slot: '0' }));
  const { runId } = await eventually(async () => await first.describe());
  await delay(9_000); // a lease of the first and a half
  assert.deepEqual(await permitsRunning(temporal.client, a), [first.workflowId]);
  await other.signal(workflows.finish);
  const held = await untilAt(set, 'holding');
  assert.ok(held.runId.endsWith(runId), 'the first was held all the time');
  await set.signal(workflows.finish);
  await set.result();
});

test('one that is lost while another is waited for ends the wait, and the error names it', async () => {
  const [a, b] = twoResources();
  const { handle: other } = await startHolding(temporal, { resource: b, semaphore: one });
  const set = await startSet({ pools: poolsOf([a, b]) });
  const first = temporal.resource('0');
  const client = acquireAll([clientOf(first), clientOf(b)]).catch((error: unknown) => error);
  await untilWaiting(temporal.client, b, 2);
  await clientOf(a).revoke('0', { reason: 'needed elsewhere' });
  const failure = await assertFails(set.result(), 'PermitLostError', /needed elsewhere/);
  assert.equal(resourceOf(failure), a);
  await untilWaiting(temporal.client, b, 1);

  await clientOf(first).revoke('0');
  const error = (await client) as PermitLostError;
  assert.equal(error.name, 'PermitLostError');
  assert.equal(error.resource, first);
  await untilWaiting(temporal.client, b, 0);
  await other.signal(workflows.finish);
});

test('the error of a timeout names the resource that was missing, and the first is free again', async () => {
  const [a, b] = twoResources();
  const { handle: other } = await startHolding(temporal, { resource: b, semaphore: one });
  for (const timeout of [0, 700]) {
    const startedMs = Date.now();
    const set = await startSet({ pools: poolsOf([b, a]), acquire: { timeout } });
    const failure = await assertFails(set.result(), 'PermitTimeoutError', /./);
    assert.equal(resourceOf(failure), b);
    const error = await acquireAll([clientOf(b), clientOf(a)], { timeout }).catch((error: unknown) => error);
    assert.ok(error instanceof PermitTimeoutError && error.resource === b, String(error));
    assert.ok(Date.now() - startedMs >= 2 * timeout);
    await assertNoPermitLeft(temporal.client, a);
  }
  await other.signal(workflows.finish);
});

test('cancelled while it waits for the second, it gives the first back', async () => {
  const [a, b] = twoResources();
  const { handle: other } = await startHolding(temporal, { resource: b, semaphore: one });
  const set = await startSet({ pools: poolsOf([a, b]) });
  const stop = new AbortController();
  const first = temporal.resource('0');
  const client = acquireAll([clientOf(b), clientOf(first)], { signal: stop.signal }).catch((error: unknown) => error);
  await untilWaiting(temporal.client, b, 2);
  await set.cancel();
  assert.ok((await failureOf(set.result())) instanceof CancelledFailure);
  stop.abort(new Error('enough'));
  assert.match(String(await client), /enough/);
  await assertNoPermitLeft(temporal.client, a);
  await assertNoPermitLeft(temporal.client, first);
  await other.signal(workflows.finish);
});

test('one that is lost while the function runs cancels it, and the other is given back', async () => {
  const [a, b] = twoResources();
  const set = await startSet({ pools: poolsOf([a, b]) });
  await untilAt(set, 'holding');
  await clientOf(b).revoke('0');
  const failure = await assertFails(set.result(), 'PermitLostError', /an operator revoked it/);
  assert.equal(resourceOf(failure), b);
  await assertNoPermitLeft(temporal.client, a);

  const lost = withPermits([clientOf(b), clientOf(a)], async (permits, signal) => {
    await clientOf(a).revoke('0');
    await new Promise((resolve) => (signal.aborted ? resolve(0) : signal.addEventListener('abort', resolve)));
    assert.equal(permits[1].signal.aborted, true);
    assert.equal(permits[0].signal.aborted, false);
  });
  await assert.rejects(lost, { name: 'PermitLostError', resource: a });
  await assertNoPermitLeft(temporal.client, b);
});

test('a set from acquireAll renews and releases all of its permits', async () => {
  const resources = twoResources();
  const input = { pools: poolsOf(resources) };
  const options = { ...startOptions(temporal, 'disposer'), args: [input] as [workflows.SetInput] };
  assert.deepEqual(await temporal.client.workflow.execute(workflows.setDisposer, options), [true, true]);

  const set = await acquireAll(resources.map((resource) => clientOf(resource)));
  await set.renew();
  await Promise.all([set.release(), set.release()]);
  assert.equal(set.signal.aborted, false);
  await assert.rejects(set.renew(), { name: 'PermitLostError' });
});

test('the same resource twice is refused before anything is done', async () => {
  const a = temporal.resource('a');
  const set = await startSet({ pools: poolsOf([a, a]) });
  await assertFails(set.result(), 'InvalidOptionsError', /expected each resource once/);
  await assert.rejects(acquireAll([clientOf(a), { of: clientOf(a) }]), InvalidOptionsError);
  await assert.rejects(acquireAll([clientOf(a)], { timeout: -1 }), InvalidOptionsError);
  await assert.rejects(temporal.client.workflow.getHandle(permitId({ resource: a, slot: '0' })).describe());
});

test('nesting by hand in two orders deadlocks: why and doctor name the cycle, and a revocation ends it', async () => {
  const [a, b] = twoResources();
  // Each takes its first permit alone, so that both have one before they ask for the other's.
  const [holdsA, holdsB] = await Promise.all(
    [
      [a, b],
      [b, a],
    ].map((resources) =>
      temporal.client.workflow.start(workflows.nester, {
        ...startOptions(temporal, 'nester'),
        args: [{ pools: poolsOf(resources), holdMs: 100 }, 1_500],
      }),
    ),
  );
  await Promise.all([untilWaiting(temporal.client, a, 1), untilWaiting(temporal.client, b, 1)]);
  const [one, other] = [holdsA?.workflowId ?? '', holdsB?.workflowId ?? ''];
  const cli = async (...args: string[]) => {
    const process = new CliProcess([...args, '--address', temporal.env.address]);
    await process.exit;
    return process.stdout;
  };
  await eventually(async () => {
    const why = await cli('why', one);
    assert.match(why, new RegExp(`Deadlock: .*${one} waits for "${b}", held by ${other}`));
    assert.match(why, new RegExp(`${other} waits for "${a}", held by ${one}`));
  });
  const doctor = JSON.parse(await cli('doctor', '--task-queue', temporal.taskQueue, '-o', 'json')) as {
    what: string;
  }[];
  assert.ok(doctor.some(({ what }) => what.startsWith('deadlock: ') && what.includes(one) && what.includes(other)));
  await clientOf(a).revoke('0', { reason: 'deadlock' });
  await assertFails((await holdsA)?.result() ?? assert.fail(), 'PermitLostError', /deadlock/);
  await holdsB?.result();
  assert.doesNotMatch(await cli('why', other), /Deadlock/);
});
