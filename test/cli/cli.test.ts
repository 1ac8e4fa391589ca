import assert from 'node:assert/strict';
import { test } from 'node:test';
import { permitId } from '../../src/shared/permit-id';
import { REVOKE } from '../../src/shared/protocol';
import { isAlive } from '../support/processes';
import { PERMISSION_DENIED, RESOURCE_EXHAUSTED, RefusingProxy } from '../support/refusing-proxy';
import { useRunCommand } from '../support/run-command';
import { untilWaiting, useTemporal } from '../support/temporal';

const temporal = useTemporal({ shared: true });
const { run, start, semaphore, permitOf, host, clean } = useRunCommand(temporal);

test('with --also the command runs under permits of several resources, all or none', async () => {
  const [resource, licences] = [temporal.resource(), temporal.resource('licences')];
  const flags = ['--also', `${licences}=a,b`];
  const { code, stdout, stderr } = await run({ resource, flags }, 'sh', '-c', 'echo "$PERMITS $PERMIT_RESOURCE"');
  assert.equal(code, 0, stderr);
  const [, json = '', first] = stdout.match(/^(\[.*\]) (.*)\n$/) ?? [];
  assert.equal(first, resource);
  const permits = JSON.parse(json) as { resource: string; slot: string; runId: string; fencingToken: string }[];
  assert.deepEqual(
    permits.map((permit) => permit.resource),
    [resource, licences],
  );
  for (const permit of permits) {
    assert.equal(permit.fencingToken, `${permit.resource}/${permit.slot}/${permit.runId}`);
    const handle = temporal.client.workflow.getHandle(permitId(permit), permit.runId);
    assert.equal(await handle.result(), 'released');
  }

  const held = await semaphore(resource).acquire();
  const late = await run({ resource, flags: [...flags, '--timeout', '1s'] }, 'true');
  assert.equal(late.code, 75);
  assert.match(late.stderr, new RegExp(`No permit of "${resource}" came free`));
  await held.release();
  for (const also of ['licences', `${resource}=2`]) {
    assert.equal((await run({ resource, flags: ['--also', also] }, 'true')).code, 64);
  }
});

test('the command knows its permit, and its exit code is ours', async () => {
  const resource = temporal.resource();
  const show = 'echo "$PERMIT_RESOURCE $PERMIT_SLOT $PERMIT_WORKFLOW_ID $PERMIT_RUN_ID $PERMIT_FENCING_TOKEN"; exit 7';
  const ended = await run({ resource, flags: ['--purpose', 'proof'] }, 'sh', '-c', show);
  const { runId, status, memo } = await permitOf(resource).describe();
  assert.deepEqual(ended, {
    code: 7,
    stdout: `${resource} 0 permit:${resource}:0 ${runId} ${resource}/0/${runId}\n`,
    stderr: '',
  });
  assert.equal(status.name, 'COMPLETED');
  assert.equal(memo?.purpose, 'proof');
});

for (const [what, command, expected, said] of [
  ['what can not be executed exits 126, and says why', ['./package.json/job'], 126, /package.json.job: .*ENOTDIR/],
  [
    'nor what is no program, in the words of shells',
    ['./package.json'],
    126,
    /: \.\/package\.json: permission denied\n/,
  ],
  ["a missing command's exit code is 127", ['there-is-no-such-command'], 127, /such-command: command not found/],
  ["a signal's exit code is 128 + n", ['sh', '-c', 'kill -KILL $$'], 137, /^$/],
] as const) {
  test(what, async () => {
    const { code, stderr } = await run({ resource: temporal.resource() }, ...command);
    assert.equal(code, expected, stderr);
    assert.match(stderr, said);
  });
}

test('full: --try exits 75 at once, --timeout when late, and neither runs the command', async () => {
  const resource = temporal.resource();
  const permit = await semaphore(resource).acquire();
  const tried = await run({ resource, flags: ['--try'] }, 'echo', 'ran');
  const late = await run({ resource, flags: ['--timeout', '1s'] }, 'echo', 'ran');
  const waiting = semaphore(resource).acquire();
  await untilWaiting(temporal.client, resource, 1);
  const bounded = await run({ resource, flags: ['--max-waiting', '1'] }, 'echo', 'ran');
  for (const { code, stdout } of [tried, late, bounded]) assert.deepEqual([code, stdout], [75, '']);
  assert.match(tried.stderr, /is free: all slots are held\. Try later/);
  assert.doesNotMatch(tried.stderr, /within/);
  assert.match(late.stderr, /came free within 1 s.* \(namespace "default" at \S+:\d+\)\n$/);
  assert.match(bounded.stderr, /the queue is full: maxWaiting is 1/);
  await permit.release();
  await (await waiting).release();
});

test('with --when-full drop-oldest, a later command takes the place of the one that waits, which exits 75', async () => {
  const resource = temporal.resource();
  const permit = await semaphore(resource).acquire();
  const flags = ['--max-waiting', '1', '--when-full', 'drop-oldest', '--fair'];
  const older = start({ resource, flags }, 'echo', 'older');
  await untilWaiting(temporal.client, resource, 1);
  const newer = run({ resource, flags }, 'echo', 'newer');
  assert.deepEqual([await older.exit, older.stdout], [75, '']);
  assert.match(older.stderr, /A later caller has taken this one's place in the queue/);
  await permit.release();
  const { code, stdout, stderr } = await newer;
  assert.deepEqual([code, stdout], [0, 'newer\n']);
  assert.match(
    stderr,
    /^(temporal-semaphore: waiting for .*\n)?$/,
    'on a busy machine, it waits long enough to say so',
  );
  const wrong = await run({ resource, flags: [...flags, '--permits', '2', '--capacity', '2'] }, 'true');
  assert.equal(wrong.code, 64, wrong.stderr);
  assert.match(wrong.stderr, /can't be combined with several permits or a key/);
});

test('with --pace a slot is not given again at once', async () => {
  const resource = temporal.resource();
  const flags = ['--pace', '10m', '--try'];
  const first = await run({ resource, flags }, 'echo', 'ran');
  assert.equal(first.code, 0, first.stderr);
  const second = await run({ resource, flags }, 'echo', 'ran');
  assert.equal(second.code, 75, second.stdout);
  await permitOf(resource).terminate();
});

test('interrupted while it waits, it leaves the line', async () => {
  const resource = temporal.resource();
  const permit = await semaphore(resource).acquire();
  const cli = start({ resource }, 'echo', 'ran');
  await untilWaiting(temporal.client, resource, 1);
  cli.signal('SIGINT');
  assert.equal(await cli.exit, 130);
  assert.equal(cli.stdout, '');
  await untilWaiting(temporal.client, resource, 0);
  await permit.release();
});

test('signals are forwarded, and the command decides', async () => {
  const resource = temporal.resource();
  const cli = start({ resource }, 'sh', '-c', 'trap "exit 3" TERM; echo ready; while :; do sleep 0.05; done');
  await cli.says(/(ready)/);
  cli.signal('SIGTERM');
  assert.equal(await cli.exit, 3);
});

test('a grandchild does not survive', async () => {
  const resource = temporal.resource();
  const { code, stdout } = await run({ resource }, 'sh', '-c', 'sleep 1000 & echo "child $!"');
  assert.equal(code, 0);
  assert.equal(isAlive(Number(/child (\d+)/.exec(stdout)?.[1])), false);
});

test('revoked, the command is ended, and the exit code is not 0', async () => {
  const resource = temporal.resource();
  const cli = start({ resource }, 'sh', '-c', 'trap "exit 0" TERM; echo ready; while :; do sleep 0.05; done');
  await cli.says(/(ready)/);
  await permitOf(resource).signal(REVOKE, { reason: 'node drain' });
  assert.equal(await cli.exit, 143);
  assert.match(cli.stderr, /an operator revoked it \(node drain\)/);
});

test('what stands where the command should is not taken for flags: put -- before it', async () => {
  const resource = temporal.resource();
  const permit = await semaphore(resource).acquire();
  const flags = ['run', resource, '--capacity', '1', '--try', '--address', temporal.env.address];
  for (const more of [['--capacity', '5'], ['--unknown']]) {
    const { code, stdout, stderr } = await host.run([...flags, 'echo', 'ran', ...more]);
    assert.deepEqual([code, stdout], [64, '']);
    assert.match(stderr, /put -- before the command/);
  }
  const guarded = await run({ resource, flags: ['--try'] }, 'echo', 'ran', '--capacity', '5');
  assert.equal(guarded.code, 75);
  await permit.release();
  const free = await run({ resource, flags: ['--try'] }, 'echo', 'ran', '--capacity', '5', '--', '-x');
  assert.deepEqual([free.code, free.stdout], [0, 'ran --capacity 5 -- -x\n']);
});

test('a resource whose name begins with - stands between two --', async () => {
  const resource = temporal.resource('--gpu');
  const to = ['--address', temporal.env.address, '--task-queue', temporal.taskQueue, '--capacity', '1'];
  const { code, stdout, stderr } = await host.run([
    'run',
    ...to,
    '--',
    resource,
    '--',
    'sh',
    '-c',
    'echo "$PERMIT_RESOURCE"',
  ]);
  assert.deepEqual([code, stdout, stderr], [0, `${resource}\n`, '']);
});

test('the command gets no key of the live page', async () => {
  const { code, stdout } = await run(
    { resource: temporal.resource() },
    'sh',
    '-c',
    'echo "[$TEMPORAL_SEMAPHORE_TOKEN]"',
  );
  assert.deepEqual([code, stdout], [0, '[]\n']);
});

test("a release that the server sheds until the lease is over does not cost the command's exit code", async () => {
  const proxy = await RefusingProxy.to(temporal.env.address, 'SignalWorkflowExecution', RESOURCE_EXHAUSTED);
  clean.push(() => proxy.close());
  const resource = temporal.resource();
  const { code, stderr } = await run({ resource, address: proxy.address, flags: ['--lease', '3s'] }, 'true');
  assert.equal(code, 0, stderr);
  await (await semaphore(resource).acquire()).release();
});

test("a release that the server refuses does not cost the command's exit code", async () => {
  const proxy = await RefusingProxy.to(temporal.env.address, 'SignalWorkflowExecution', PERMISSION_DENIED);
  clean.push(() => proxy.close());
  const resource = temporal.resource();
  const { code, stderr } = await run(
    { resource, address: proxy.address, flags: ['--lease', '3s'] },
    'sh',
    '-c',
    'exit 7',
  );
  assert.equal(code, 7, stderr);
  assert.match(
    stderr,
    new RegExp(`^temporal-semaphore: slot "0" of "${resource}" is not free yet: .*PERMISSION_DENIED`),
  );
  await (await semaphore(resource).acquire()).release(); // its lease has ended it
});

test('wrong usage exits 64, no server 69, and no secret is told', async () => {
  const secret = 'the-secret-key';
  const usage = await run({ resource: 'pool', flags: ['--lease', 'soon', '--api-key', secret] }, 'true');
  const server = await run({ resource: 'pool', address: '127.0.0.1:1', flags: ['--api-key', secret] }, 'true');
  assert.deepEqual([usage.code, server.code], [64, 69]);
  assert.match(usage.stderr, /--lease .* Expected a duration/);
  assert.ok(!(usage.stderr + usage.stdout + server.stderr + server.stdout).includes(secret));
});
