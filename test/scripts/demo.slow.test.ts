import assert from 'node:assert/strict';
import { test } from 'node:test';
import { stripVTControlCharacters } from 'node:util';
import { lacking } from '../../scripts/support/requirements';
import { UI_OFFSET } from '../../scripts/support/run-options';
import { checkPortIsFree, freePort } from '../../scripts/support/server-process';
import { assertCount, useBrowser } from '../support/browser';
import { assertClosing } from '../support/demo';
import { runScript, startScript } from '../support/script';
import { until } from '../support/temporal';

const browser = useBrowser();

const LATE_WRITE = [
  /4 of 4 consumers finished/,
  /writer-1 writes: the ledger takes it/,
  /writer-2 waits in line/,
  /writer-1 hangs/,
  /its lease lasts [1-4]\.\d s/,
  /the lease has ended: writer-2 holds slot 0/,
  /writer-2 writes: the ledger takes it/,
  /writer-1 goes on/,
  /writer-1 writes: .*refused\. Stale fencing token/,
  /What to try next:/,
];

function assertTells(out: string, story: readonly RegExp[]): void {
  let rest = out;
  for (const part of story) {
    const found = part.exec(rest) ?? assert.fail(`${part} is missing, or too early, in:\n${out}`);
    rest = rest.slice(found.index + found[0].length);
  }
}

test('demo: all consumers finish, the histories show no more permits than the capacity; then the late write is refused', async () => {
  const ended = await runScript('demo', ['--consumers', '4', '--capacity', '2', '--hold', '200ms']);
  assertClosing(ended, 4, 2);
  assert.match(ended.out, /consumer-[0-9a-f]{6}-\d holds slot [01] \(\d held, \d waiting\)/);
  if (process.platform !== 'win32') assertTells(ended.out, LATE_WRITE);
});

test('demo on a terminal: a picture that is drawn over and over; then a holder hangs, the next one holds, and the late write is refused', {
  skip: lacking('terminal', 'ownServer'),
}, async () => {
  const { code, out } = await runScript('demo', ['--consumers', '4', '--hold', '500ms'], { TERM: 'xterm' }, true);
  assert.equal(code, 0, out);
  assert.doesNotMatch(out, /\\u\{/, 'its own colours are escaped');
  const lines = stripVTControlCharacters(out).split(/[\r\n]+/);
  assert.deepEqual(
    lines.filter((line) => line.length > 120),
    [],
    'no line is wider than a terminal',
  );
  assertTells(out, [/its work.*holder/, ...LATE_WRITE]);
});

test('demo that is refused exits 1, says so on standard error alone, and starts nothing', async () => {
  const { code, out, errors } = await runScript('demo', ['--capacity', '0']);
  assert.equal(code, 1);
  assert.equal(out, '');
  assert.match(errors, /^error: .* Expected a whole number from 1 to 100\.\n$/);
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

test('the grid fills and drains while the demo runs, and nothing is drawn anew that did not change', {
  skip: lacking('ownServer'),
}, async (t) => {
  const demo = startScript('demo', ['--dashboard', '--consumers', '8', '--capacity', '3', '--hold', '3s']);
  t.after(() => demo.child.kill('SIGKILL'));
  const [, url = ''] = await demo.says(/Dashboard: (\S+)/);
  const page = await browser.open(url);
  await assertCount(page, '.slot', 3);
  await page.evaluate('window.slots = [...document.querySelectorAll(".slot")]');
  await assertCount(page, '.slot.held', 3);
  await until(async () => (await page.locator('.queue li').count()) >= 2);
  await demo.says(/The dashboard stays until Ctrl-C/);
  await assertCount(page, '.slot.free', 3);
  await page.getByText('No waiters.').waitFor();
  await assertCount(page, '.timeline .hold', 8);
  await assertCount(page, '.recent li', 8);
  assert.equal(await page.evaluate('window.slots.every((slot) => slot.isConnected)'), true);
  await page.context().close();
  demo.child.kill('SIGINT');
  const { code, out, errors } = await demo.ended;
  assert.equal(code, 0, out + errors);
  assert.equal(errors, '');
});

/** A free port whose Web UI's port is free too. */
async function freePortWithUi(): Promise<number> {
  for (;;) {
    const port = await freePort();
    const isFree = await checkPortIsFree(port + UI_OFFSET, 'the Web UI').then(
      () => true,
      () => false,
    );
    if (isFree) return port;
  }
}

test('server, worker and start work together, and end cleanly', { skip: lacking('ownServer') }, async (t) => {
  const port = await freePortWithUi();
  const env = { TEMPORAL_ADDRESS: `127.0.0.1:${port}` };

  const server = startScript('dev-server', ['--port', String(port)]);
  t.after(() => server.child.kill());
  await server.says(/Temporal server: 127/);
  const second = await runScript('dev-server', ['--port', String(port)]);
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

for (const name of ['start', 'worker']) {
  test(`${name} without a server: one line that says how to start one`, async () => {
    const address = `127.0.0.1:${await freePort()}`;
    const { code, errors } = await runScript(name, [], { TEMPORAL_ADDRESS: address });
    assert.equal(code, 1);
    assert.equal(errors, `No Temporal server at ${address}. Start one with: npx -y pnpm@10 dev-server\n`);
  });
}
