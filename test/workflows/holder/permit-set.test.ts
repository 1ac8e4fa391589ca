import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { Client, type WorkflowClientInterceptor } from '@temporalio/client';
import type { ReportedHold } from '../../../scripts/support/holder-intervals';
import type { Finding } from '../../../src/cli/resource-findings';
import { acquireAll, InvalidOptionsError, PermitTimeoutError, SemaphoreClient, withPermits } from '../../../src/client';
import { noAwaitUsing } from '../../support/await-using';
import { CliHost } from '../../support/cli-host';
import { assertFails, startOptions, untilAt } from '../../support/holders';
import { operatorOf } from '../../support/operators';
import { assertNothingLeft, clientOf, holdForAMoment } from '../../support/sets';
import { assertNoPermitLeft, assertSafe, eventually, until, untilWaiting, useTemporal } from '../../support/temporal';
import * as workflows from '../../support/workflows';

// Sets of Workflows beside those of clients, and what only one side has. What both promise is in contract/sets.test.ts.

const temporal = useTemporal({ shared: true });
const host = new CliHost();

/** Two resources of this test's own; the first is claimed first. */
function twoResources(): [a: string, b: string] {
  return [temporal.resource('a'), temporal.resource('b')];
}

function startSet(input: workflows.SetInput) {
  return temporal.client.workflow.start(workflows.setHolder, { ...startOptions(temporal, 'set'), args: [input] });
}

function startMany(resource: string, size: number) {
  return temporal.client.workflow.start(workflows.manyHolder, {
    ...startOptions(temporal, 'many'),
    args: [{ resource, semaphore: { capacity: 4 }, holdMs: 20 }, size],
  });
}

function poolsOf(resources: string[], capacity = 1): workflows.SetInput['pools'] {
  return resources.map((resource) => ({ resource, semaphore: { capacity } }));
}

test('in whatever order Workflows and clients write their resources, none blocks another for ever', async () => {
  const [a, b] = twoResources();
  const workflow = async (resources: string[]) => {
    const slots = await (await startSet({ pools: poolsOf(resources, 2), holdMs: 20 })).result();
    assert.deepEqual(
      slots.map(({ resource }) => resource),
      resources,
    );
    return [];
  };
  const client = async (resources: string[]) =>
    await withPermits(
      resources.map((resource) => clientOf(temporal, resource, { capacity: 2 })),
      holdForAMoment,
    );
  const sets = [workflow([a, b]), workflow([b, a]), workflow([b]), client([a, b]), client([b, a])];
  const more = [workflow([a, b]), client([b, a])];
  const reported = (await Promise.all([...sets, ...more])).flat();
  const holds = [
    ...(await assertSafe(temporal.client, a, 2, reported)),
    ...(await assertSafe(temporal.client, b, 2, reported)),
  ];
  assert.equal(holds.length, 6 + 7);
});

test('callers of 1 to 4 permits on capacity 4 all get what they want, all or none, and no two block each other', async () => {
  const resource = temporal.resource('many');
  const workflow = async (size: number): Promise<ReportedHold[]> => {
    const slots = await (await startMany(resource, size)).result();
    assert.equal(new Set(slots).size, size);
    return [];
  };
  const client = async (size: number) =>
    await withPermits([{ of: clientOf(temporal, resource, { capacity: 4 }), permits: size }], async ([permits]) => {
      assert.equal(new Set(permits.map(({ slot }) => slot)).size, size);
      return await holdForAMoment(permits);
    });
  const sizes = [4, 3, 1, 2];
  const reported = (await Promise.all(sizes.flatMap((size) => [workflow(size), client(size)]))).flat();
  await assertNothingLeft(temporal, resource);
  const holds = await assertSafe(temporal.client, resource, 4, reported);
  // Those of a client that somebody else was faster with are not reported.
  assert.ok(holds.length >= 20, `${holds.length} holds`);
});

test('a set of a Workflow renews all of its permits, and releases them by `await using`', {
  skip: noAwaitUsing,
}, async () => {
  const options = {
    ...startOptions(temporal, 'disposer'),
    args: [{ pools: poolsOf(twoResources()) }] as [workflows.SetInput],
  };
  assert.deepEqual(await temporal.client.workflow.execute(workflows.setDisposer, options), [true, true]);
});

test('a set from acquireAll renews and releases all of its permits', async () => {
  const resources = twoResources();
  const set = await acquireAll(resources.map((resource) => clientOf(temporal, resource)));
  await set.renew();
  await Promise.all([set.release(), set.release()]);
  assert.equal(set.signal.aborted, false);
  await assert.rejects(set.renew(), { name: 'PermitLostError' });
});

test("a client's set that loses one permit aborts, and so does that permit, but not the others", async () => {
  const [a, b] = twoResources();
  const lost = withPermits([clientOf(temporal, b), clientOf(temporal, a)], async (permits, signal) => {
    await operatorOf(clientOf(temporal, a)).revoke('0');
    await new Promise((resolve) => (signal.aborted ? resolve(0) : signal.addEventListener('abort', resolve)));
    assert.equal(permits[1].signal.aborted, true);
    assert.equal(permits[0].signal.aborted, false);
  });
  await assert.rejects(lost, { name: 'PermitLostError', resource: a });
  await assertNoPermitLeft(temporal.client, b);
});

test('an abort while the permit that allowed to accumulate is given back leaves nothing held', async () => {
  const resource = temporal.resource('many');
  const enough = new AbortController();
  const signal: WorkflowClientInterceptor['signal'] = async (input, next) => {
    if (input.workflowExecution.workflowId.includes('~set')) enough.abort(new Error('enough'));
    await next(input);
  };
  const { connection } = temporal.client;
  const client = new Client({ connection, interceptors: { workflow: [{ signal }] } });
  const semaphore = new SemaphoreClient(client, resource, { capacity: 2, taskQueue: temporal.taskQueue });
  let hasRun = false;
  const work = async () => {
    hasRun = true;
  };
  await assert.rejects(withPermits([{ of: semaphore, permits: 2 }], work, { signal: enough.signal }), /enough/);
  assert.equal(hasRun, false);
  await assertNothingLeft(temporal, resource);
});

test('a client has several of one beside one of another; what makes no sense is refused', async () => {
  const [gpus, licences] = [temporal.resource('gpus'), temporal.resource('licences')];
  const [pool, other] = [clientOf(temporal, gpus, { capacity: 4 }), clientOf(temporal, licences, { capacity: 1 })];
  await withPermits([other, { of: pool, permits: 3 }], async ([licence, three]) => {
    assert.equal(licence.resource, licences);
    assert.equal(three.length, 3);
    const one: number = three.length;
    assert.ok(one);
  });
  const set = await acquireAll([{ of: pool, permits: 4 }]);
  assert.deepEqual([set.permits.length, set.permits[0].length], [1, 4]);
  assert.equal(await pool.tryAcquire(), undefined);
  await assert.rejects(acquireAll([{ of: pool, permits: 2 }], { timeout: 0 }), PermitTimeoutError);
  await set.release();
  await assertNothingLeft(temporal, gpus);

  await assert.rejects(acquireAll([{ of: pool, permits: 5 }]), /permits: expected at most 4, the capacity/);
  await assert.rejects(
    withPermits([{ of: pool, permits: 1.5 }], async () => 0),
    /permits: expected a whole number from 1/,
  );
  // @ts-expect-error several permits are an entry of a set: the compiler says so too, for `acquire` always gives one
  await assert.rejects(pool.acquire({ permits: 2 }), /Unknown option "permits"/);
  await assert.rejects(
    // @ts-expect-error … and `withPermit`
    pool.withPermit(async () => 0, { permits: 2 }),
    /Unknown option "permits"/,
  );
  // @ts-expect-error … and no option of the set
  await assert.rejects(acquireAll([pool], { permits: 2 }), /Unknown option "permits"/);
  // @ts-expect-error a set does not pre-empt
  await assert.rejects(acquireAll([pool], { preempt: true }), /preempt/);
  await assert.rejects(acquireAll([pool, { of: pool }]), InvalidOptionsError);
  await assert.rejects(acquireAll([pool], { timeout: -1 }), InvalidOptionsError);
});

test('a read-write lock: readers share it, and a writer has it alone (docs/recipes.md)', async () => {
  const resource = temporal.resource('table');
  const READERS = 4;
  const table = clientOf(temporal, resource, { capacity: READERS });
  let readers = 0;
  let writers = 0;
  let mostReaders = 0;
  const read = () =>
    table.withPermit(async () => {
      mostReaders = Math.max(mostReaders, ++readers);
      assert.equal(writers, 0, 'nobody writes while somebody reads');
      await until(() => mostReaders > 1); // readers share
      readers--;
    });
  const write = () =>
    withPermits([{ of: table, permits: READERS }], async () => {
      writers++;
      assert.deepEqual({ readers, writers }, { readers: 0, writers: 1 }, 'a writer is alone');
      await delay(20);
      writers--;
    });
  await Promise.all([read(), read()]);
  await Promise.all([read(), write(), read(), write(), read()]);
  await assertNothingLeft(temporal, resource);
});

test('nesting by hand in two orders deadlocks: why and doctor name the cycle, and a revocation ends it', async () => {
  const [a, b] = twoResources();
  const [holdsA, holdsB] = await Promise.all(
    [
      [a, b],
      [b, a],
    ].map((resources) =>
      temporal.client.workflow.start(workflows.nester, {
        ...startOptions(temporal, 'nester'),
        args: [{ pools: poolsOf(resources), holdMs: 100 }],
      }),
    ),
  );
  // Each has one permit before it asks for that of the other.
  for (const nester of [holdsA, holdsB]) await untilAt(nester ?? assert.fail(), 'holding');
  await Promise.all([holdsA, holdsB].map((nester) => nester?.signal(workflows.finish)));
  await Promise.all([untilWaiting(temporal.client, a, 1), untilWaiting(temporal.client, b, 1)]);
  const [one, other] = [holdsA?.workflowId ?? '', holdsB?.workflowId ?? ''];
  const cli = async (...args: string[]) => (await host.run([...args, '--address', temporal.env.address])).stdout;
  await eventually(async () => {
    const why = await cli('why', one);
    assert.match(why, new RegExp(`deadlock: .*${one} waits for "${b}", held by ${other}`));
    assert.match(why, new RegExp(`${other} waits for "${a}", held by ${one}`));
  });
  const doctor: Finding[] = JSON.parse(
    await cli('doctor', '--task-queue', temporal.taskQueue, '--waiting-longer', '0s', '-o', 'json'),
  );
  const ours = doctor.filter(({ what }) => [a, b].some((resource) => what.includes(`"${resource}"`)));
  const { what, advice = '' } = ours.find((finding) => finding.is === 'bad') ?? assert.fail();
  assert.ok(what.startsWith('deadlock: ') && what.includes(one) && what.includes(other));
  assert.equal(ours.filter((finding) => finding.is === 'warning').length, 2, 'each waits long');
  assert.doesNotMatch(JSON.stringify(ours), /too few slots/);
  const [, order = '', loser] = advice.match(/temporal-semaphore (revoke .* --run-id \S+)\. Its holder, (\S+),/) ?? [];
  assert.match(await cli(...order.split(' '), '--reason', 'deadlock', '--yes'), /^Took slot "0"/);
  const [lost, served] = loser === one ? [holdsA, holdsB] : [holdsB, holdsA];
  await assertFails(lost?.result() ?? assert.fail(), 'PermitLostError', /deadlock/);
  await served?.result();
  assert.doesNotMatch(await cli('why', other), /deadlock/);
});
