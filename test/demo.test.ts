import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CommanderError } from 'commander';
import { lacking } from '../scripts/support/requirements';
import { parseDemoOptions } from '../scripts/support/run-options';
import { checkPortIsFree, freePort } from '../scripts/support/server-process';
import { type Ended, runScript, startScript } from './support/script';

const RUN_ID = '01[0-9a-f]{6}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}';

function assertClosing({ code, out, errors }: Ended, consumers: number, capacity: number): void {
  assert.equal(code, 0, out + errors);
  assert.equal(errors, '');
  const lines = out.trimEnd().split('\n');
  const most = new RegExp(
    `^${consumers} of ${consumers} consumers finished; at most (\\d+) permits? held at once \\(capacity ${capacity}\\)$`,
  ).exec(lines.at(-1) ?? '');
  assert.ok(most, out);
  assert.ok(Number(most[1]) >= 1 && Number(most[1]) <= capacity, most[0]);

  const head = lines.findIndex((line) => /^consumer +slot +waited +held +run ID$/.test(line));
  const row = new RegExp(`^consumer-[0-9a-f]{6}-\\d+ +\\d+ +[\\d.]+ s +[\\d.]+ s +${RUN_ID}$`);
  const rows = lines.slice(head + 1, head + 1 + consumers);
  for (const line of rows) assert.match(line, row);
  assert.equal(new Set(rows.map((line) => line.split(/ +/).at(-1))).size, consumers, 'run IDs are distinct');
}

test('demo: all consumers finish, the histories show no more permits than the capacity', async () => {
  const ended = await runScript('demo', ['--consumers', '4', '--capacity', '2', '--hold', '200ms']);
  assertClosing(ended, 4, 2);
  assert.match(ended.out, /consumer-[0-9a-f]{6}-\d holds slot [01] \(\d held, \d waiting\)/);
});

test('demo: an interrupt ends consumers, worker and server, and exits 130', async () => {
  const demo = startScript('demo', ['--hold', '60s']);
  await demo.says(/holds slot/);
  demo.child.kill('SIGINT');
  const { code, out, errors } = await demo.ended;
  assert.equal(code, 130, out + errors);
  assert.equal(errors, '');
  const embedded = /127\.0\.0\.1:(\d+), for as long as the demo runs/.exec(out);
  if (embedded) await checkPortIsFree(Number(embedded[1]), 'nobody');
});

const CAPACITY_0 = ['--capacity', '0'];

for (const [args, line] of [
  [CAPACITY_0, /'--capacity <n>' argument '0' is invalid\. Expected a whole number from 1 to 100\.$/],
  [['--consumers', '1.5'], /'--consumers <n>' argument '1\.5' is invalid\. Expected a whole number from 1 to 200\.$/],
  [['--hold', 'nonsense'], /'--hold <duration>' argument 'nonsense' is invalid\. Expected a duration from 1ms to 5m/],
  [['--address', 'nowhere'], /'--address <host:port>' argument 'nowhere' is invalid\. Expected host:port\.$/],
] as const) {
  test(`demo ${args.join(' ')}: refused in one line`, (t) => {
    const { mock } = t.mock.method(process.stderr, 'write', () => true);
    assert.throws(() => parseDemoOptions([...args]), CommanderError);
    mock.restore();
    const said = mock.calls.map(({ arguments: [text] }) => text).join('');
    assert.match(said.trimEnd(), line);
    assert.equal(said.trimEnd().split('\n').length, 1);
  });
}

test('demo that is refused exits 1, says so on standard error alone, and starts nothing', async () => {
  const { code, out, errors } = await runScript('demo', CAPACITY_0);
  assert.equal(code, 1);
  assert.equal(out, '');
  assert.match(errors, /^error: .* Expected a whole number from 1 to 100\.\n$/);
});

for (const name of ['start', 'worker']) {
  test(`${name} without a server: one line that says how to start one`, async () => {
    const address = `127.0.0.1:${await freePort()}`;
    const { code, errors } = await runScript(name, [], { TEMPORAL_ADDRESS: address });
    assert.equal(code, 1);
    assert.equal(errors, `No Temporal server at ${address}. Start one with: npx -y pnpm@10 server\n`);
  });
}

test('server, worker and start work together, and end cleanly', { skip: lacking('ownServer') }, async (t) => {
  const port = await freePort();
  const env = { TEMPORAL_ADDRESS: `127.0.0.1:${port}` };

  const server = startScript('server', ['--port', String(port)]);
  t.after(() => server.child.kill());
  await server.says(/Temporal server: 127/);
  const second = await runScript('server', ['--port', String(port)]);
  assert.equal(second.code, 1);
  assert.match(second.errors, new RegExp(`^Port ${port} for the server: expected a free port, but .* --port\\.\n$`));

  const start = startScript('start', ['--consumers', '3', '--capacity', '1', '--hold', '200ms'], env);
  await start.says(/No worker on task queue .* yet\. Start one with: npx -y pnpm@10 worker/);
  const worker = startScript('worker', [], env);
  t.after(() => worker.child.kill());
  assertClosing(await start.ended, 3, 1);

  for (const [script, signal] of [
    [worker, 'SIGTERM'],
    [server, 'SIGINT'],
  ] as const) {
    script.child.kill(signal);
    const { code, out, errors } = await script.ended;
    assert.equal(code, 0, out + errors);
    assert.equal(errors, '');
  }
  await checkPortIsFree(port, 'nobody');
});
