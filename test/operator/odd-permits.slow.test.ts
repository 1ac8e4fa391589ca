import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, afterEach, test } from 'node:test';
import { Worker } from '@temporalio/worker';
import { SemaphoreClient, type SemaphoreClientOptions } from '../../src/client';
import { mapConcurrently } from '../../src/client/server/map-concurrently';
import { listHolders } from '../../src/operator';
import { inspectAllInUse } from '../../src/operator/resources-in-use';
import { permitId, queueId } from '../../src/shared/permit-id';
import { PERMIT_STATUS, PERMIT_WORKFLOW, QUEUE_VIEW, QUEUE_WORKFLOW } from '../../src/shared/protocol';
import { CliHost, type Ended } from '../support/cli-host';
import { CliProcess } from '../support/cli-process';
import { operatorOf } from '../support/operators';
import { eventually, until, useTemporal } from '../support/temporal';
import * as workflows from '../support/workflows';

// Whoever may start Workflows may start what looks like a permit, and write anything into its memo.

let started: string[] = [];
// Before the harness looks whether a permit was left.
afterEach(async () => {
  await mapConcurrently(started, async (workflowId) => {
    await temporal.client.workflow.getHandle(workflowId).terminate();
  });
  started = [];
});

// Before the harness closes its connection.
let starting: Promise<NonNullable<typeof impostors>> | undefined;
let impostors: { taskQueue: string; stop(): Promise<void> } | undefined;
after(async () => await impostors?.stop());

const temporal = useTemporal();

const json = (value: unknown) => payload('json/plain', JSON.stringify(value));

function payload(encoding: string, data: string) {
  return { metadata: { encoding: Buffer.from(encoding) }, data: Buffer.from(data) };
}

/** Starts a Workflow that no worker takes up, with a memo as it is on the wire. */
async function start(workflowId: string, type: string, memo: Record<string, ReturnType<typeof payload>> = {}) {
  await temporal.client.workflowService.startWorkflowExecution({
    namespace: 'default',
    workflowId,
    workflowType: { name: type },
    taskQueue: { name: 'of-nobody' },
    requestId: randomUUID(),
    memo: { fields: memo },
  });
  started.push(workflowId);
}

/** A worker that runs something else as our Workflows. */
async function startImpostors(): Promise<NonNullable<typeof impostors>> {
  const taskQueue = `impostors-${randomUUID()}`;
  const worker = await Worker.create({
    connection: temporal.env.nativeConnection,
    workflowsPath: require.resolve('../support/impostors'),
    taskQueue,
  });
  const running = worker.run();
  const stop = async () => {
    worker.shutdown();
    await running;
  };
  return { taskQueue, stop };
}

async function startImpostor(workflowId: string, query: string, answer: unknown): Promise<void> {
  starting ??= startImpostors();
  impostors = await starting;
  const type = workflowId.startsWith('permit-queue:') ? QUEUE_WORKFLOW : PERMIT_WORKFLOW;
  const { taskQueue } = impostors;
  await temporal.client.workflow.start(type, { workflowId, taskQueue, args: [query, answer] });
  started.push(workflowId);
}

function pool(resource: string, capacity: number, lease?: SemaphoreClientOptions['lease']): SemaphoreClient {
  return new SemaphoreClient(temporal.client, resource, { capacity, taskQueue: temporal.taskQueue, lease });
}

const host = new CliHost();

async function cli(...args: string[]): Promise<Ended> {
  const queue = args[0] === 'why' ? [] : ['--task-queue', temporal.taskQueue];
  return await host.run([...args, '--address', temporal.env.address, ...queue]);
}

/** A queue's answer of which each part is wrong. `src/shared/lenient-input.test.ts` has more. */
const ODD_VIEW = {
  tickets: [
    null,
    {},
    { id: 'x', slots: 1, sinceMs: 1 },
    { id: 'y', waiter: { workflowId: 'w' }, slots: 1e9, sinceMs: 1 },
  ],
  slots: [
    null,
    [],
    ['0'],
    ['1', null],
    [2, { at: 'free' }],
    ['a:b', { at: 'held' }],
    ['s'.repeat(3_000), { at: 'free' }],
  ],
  shares: [null, [1], [1, 2, 3], [3, 0, [null, ['key'], [5, 6]]]],
};

const MEMOS = {
  'a holder of null': { holder: json(null) },
  'a holder that is a number, and a purpose that is an object': { holder: json(5), purpose: json({ a: 1 }) },
  'names of the wrong type': { holder: json({ workflowId: 5, identity: ['a'] }), purpose: json(['b']) },
  'broken JSON': { holder: payload('json/plain', '{"identity":') },
  'what another codec has encrypted': {
    holder: payload('binary/encrypted', 'x'),
    purpose: payload('binary/encrypted', 'x'),
  },
  'an encoding that nobody knows': { holder: payload('json/of-the-future', '{}') },
  nothing: {},
};

test('odd permits hide no others: not in a pool, not in the namespace, not from the command line', async () => {
  const resource = temporal.resource();
  const memos = Object.values(MEMOS);
  for (const [index, memo] of memos.entries())
    await start(permitId({ resource, slot: `${index}` }), PERMIT_WORKFLOW, memo);
  const odd = pool(resource, memos.length + 1);
  const permit = (await odd.tryAcquire({ purpose: 'honest work' })) ?? assert.fail();
  const unnameable = [
    'permit:a\nb:0',
    'permit:a\u001b[31mb:0',
    `permit:${'r'.repeat(240)}:0`, // servers on PostgreSQL or MySQL refuse IDs of more than 255 characters
    `permit:${resource}:a\u202eb`,
  ];
  for (const workflowId of unnameable) await start(workflowId, PERMIT_WORKFLOW, { holder: json({ identity: 'x' }) });
  for (const workflowId of ['permit-queue:x\ny', `permit-queue:${'q'.repeat(240)}`])
    await start(workflowId, QUEUE_WORKFLOW);

  const { slots } = await operatorOf(odd).inspect();
  for (const { permit: seen } of slots.slice(0, -1)) assert.deepEqual([seen?.holder, seen?.purpose], [{}, undefined]);
  assert.equal(slots.at(-1)?.permit?.purpose, 'honest work');
  await eventually(async () => {
    const holders = (await listHolders(temporal.client)).filter((it) => it.resource === resource);
    assert.equal(holders.length, memos.length + 1);
    assert.equal(holders.find(({ slot }) => slot === permit.slot)?.permit.runId, permit.runId);
  });

  const all = await cli('ls', '--json');
  const one = await cli('ls', resource, '--capacity', String(memos.length + 1));
  const why = await cli('why', String(temporal.client.options.identity));
  const doctor = await cli('doctor');
  const revoke = await cli('revoke', resource, '1', '--yes', '--run-id', permit.runId);
  for (const { code, stderr } of [all, one, why]) assert.deepEqual([code, stderr], [0, '']);
  const listed: { resource: string; problem?: string }[] = JSON.parse(all.stdout);
  assert.deepEqual(
    listed.map((it) => [it.resource, it.problem]),
    [[resource, undefined]],
  );
  assert.match(one.stdout, new RegExp(`${memos.length + 1} of ${memos.length + 1} held[^]*unknown[^]*honest work`));
  assert.match(why.stdout, new RegExp(`holds slot ${permit.slot} of ${resource}`));
  assert.equal(doctor.stderr, '');
  assert.match(doctor.stdout, /held by unknown, and 6 more: no worker answers on task queue/);
  assert.match(revoke.stderr, /does not hold slot "1"/, 'it was looked at, and it is another run');
  await permit.release();
});

test('to look at all resources, visibility is asked three times, not once more for each of them', async (t) => {
  const resource = temporal.resource();
  const addresses = Array.from({ length: 9 }, (_, index) => `${resource}-${index % 3}:${Math.floor(index / 3)}`);
  await mapConcurrently(addresses, async (address) => await start(`permit:${address}`, PERMIT_WORKFLOW));
  await until(async () => {
    const { count } = await temporal.client.workflow.count(`WorkflowId STARTS_WITH "permit:${resource}"`);
    return count === addresses.length;
  });

  const listing = t.mock.method(temporal.client.workflowService, 'listWorkflowExecutions');
  const seen = await inspectAllInUse(temporal.client, { keys: true });
  assert.deepEqual(
    seen.filter((it) => it.resource.startsWith(resource)).map((it) => [it.resource, it.slots.length]),
    [0, 1, 2].map((index) => [`${resource}-${index}`, 3]),
  );
  assert.equal(listing.mock.callCount(), 3, 'for permits, for queues, and for those who wait without a queue');
});

test('why of one that holds says which queues could not tell whether it waits', async () => {
  const [held, silent] = [temporal.resource(), temporal.resource()];
  await start(permitId({ resource: held, slot: '0' }), PERMIT_WORKFLOW, { holder: json({ identity: 'train-7' }) });
  await start(queueId(silent), QUEUE_WORKFLOW);
  await eventually(async () => {
    const { code, stdout, stderr } = await cli('why', 'train-7');
    assert.match(stdout, new RegExp(`^train-7 holds slot 0 of ${held}`));
    assert.match(stderr, new RegExp(`can't tell whether train-7 waits for a permit of ${silent}: no worker answers`));
    assert.equal(code, 69);
  });
});

test("a queue that answers with anything leaves the pool's slots to be seen", async () => {
  const answers = [
    null,
    5,
    {},
    ODD_VIEW,
    { tickets: [], override: { version: 1, slots: 1, capacity: 1e9, paused: false } },
  ];
  await mapConcurrently(answers, async (answer) => {
    const resource = temporal.resource();
    await startImpostor(queueId(resource), QUEUE_VIEW, answer);
    const { waiters, capacity, slots } = await operatorOf(pool(resource, 2)).inspect({ recent: 0 });
    assert.deepEqual([waiters, capacity, slots.map(({ slot }) => slot)], [[], 2, ['0', '1']], JSON.stringify(answer));
  });
});

test('a ticket that no queue would take is left out, and the sound one beside it is shown', async () => {
  const resource = temporal.resource();
  const runId = randomUUID();
  const sinceMs = Date.now(); // after half a minute, the look would ask whether the Workflow still runs
  const ticket = { id: 'n', waiter: { workflowId: 'w', runId }, slots: 1, sinceMs };
  const odd = [{ identity: 5 }, { fairnessKey: { a: 1 } }, { priorityKey: '\u001b[31m' }, { sinceMs: 1e300 }];
  const tickets = [...odd.map((part) => ({ ...ticket, ...part, id: 'odd' })), ticket];
  await startImpostor(queueId(resource), QUEUE_VIEW, { tickets, slots: [], shares: [] });
  const { waiters } = await operatorOf(pool(resource, 1)).inspect({ recent: 0 });
  assert.deepEqual(JSON.parse(JSON.stringify(waiters)), [
    { place: 1, ticketId: 'n', workflowId: 'w', runId, priorityKey: 3, since: new Date(sinceMs).toISOString() },
  ]);
});

test('a permit that says nonsense of its lease is shown without one', async () => {
  const resource = temporal.resource();
  const answers = [{}, null, { deadlineMs: 'x' }, { deadlineMs: 1e300 }, { deadlineMs: {} }];
  await mapConcurrently([...answers.entries()], async ([index, answer]) => {
    await startImpostor(permitId({ resource, slot: String(index) }), PERMIT_STATUS, answer);
  });
  const { slots } = await operatorOf(pool(resource, answers.length)).inspect({ recent: 0 });
  assert.deepEqual(
    slots.map(({ state, permit }) => [state, permit?.leaseDeadline]),
    answers.map(() => ['held', undefined]),
  );
});

test('a permit whose result is none of ours has ended in an unknown way', async () => {
  const resource = temporal.resource();
  const run = await temporal.client.workflow.start(workflows.impostor, {
    workflowId: permitId({ resource, slot: '0' }),
    taskQueue: temporal.taskQueue,
    args: [PERMIT_STATUS, {}],
  });
  await run.signal(workflows.finish);
  await run.result();
  await eventually(async () => {
    const { recent } = await operatorOf(pool(resource, 1)).inspect();
    assert.deepEqual(
      recent.map(({ slot, outcome }) => [slot, outcome]),
      [['0', 'unknown']],
    );
  });
});

test('among 1,500 permits that nobody answers for, ls and doctor take 10 s at most, and an honest resource is seen', async (t) => {
  const resource = temporal.resource();
  const permit = await pool(resource, 1, '5 minutes').acquire();
  const fakes = Array.from({ length: 1_500 }, (_, index) => `permit:${resource}-fake-${index}:0`);
  await mapConcurrently(fakes, (id) => start(id, PERMIT_WORKFLOW, { holder: json({ identity: 'x' }) }));
  await until(async () => {
    const { count } = await temporal.client.workflow.count(`WorkflowId STARTS_WITH "permit:${resource}"`);
    return count === fakes.length + 1;
  });
  for (const command of ['ls', 'doctor']) {
    const sinceMs = performance.now();
    const process = new CliProcess([
      command,
      '--address',
      temporal.env.address,
      ...['--task-queue', temporal.taskQueue],
    ]);
    await process.exit;
    const tookMs = performance.now() - sinceMs;
    const lines = process.stdout.trimEnd().split('\n');
    t.diagnostic(`${command}: ${Math.round(tookMs)} ms, ${lines.length} lines`);
    assert.ok(tookMs < 10_000, `${tookMs}`);
    assert.ok(lines.length <= (command === 'ls' ? 3 + fakes.length : 60), `${lines.length}`);
    if (command === 'ls') assert.match(process.stdout, new RegExp(`^${resource} +1 `, 'm'));
    else assert.equal(accountedFor(lines), fakes.length, process.stdout.slice(0, 2_000));
  }
  await permit.release();
});

/** How many resources `doctor` names, counts, or says that it had no time for. */
function accountedFor(lines: readonly string[]): number {
  const number = (pattern: RegExp) => Number(lines.map((line) => pattern.exec(line)?.[1]).find(Boolean) ?? 0);
  const named = lines.filter((line) => /^bad +slot "0" of /.test(line)).length;
  return (
    named +
    number(/, and (\d+) more: no worker answers on task queue /) +
    number(/^warn +(\d+) of \d+ resources in use/)
  );
}
