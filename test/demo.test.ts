import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CommanderError } from 'commander';
import { parseDemoOptions } from '../scripts/support/run-options';
import { freePort } from '../scripts/support/server-process';
import { assertClosing } from './support/demo';
import { runScript } from './support/script';

test('demo: all consumers finish, the histories show no more permits than the capacity', async () => {
  const ended = await runScript('demo', ['--consumers', '4', '--capacity', '2', '--hold', '200ms']);
  assertClosing(ended, 4, 2);
  assert.match(ended.out, /consumer-[0-9a-f]{6}-\d holds slot [01] \(\d held, \d waiting\)/);
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
