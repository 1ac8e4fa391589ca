import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CommanderError } from 'commander';
import { parseDemoOptions } from '../../scripts/support/run-options';

for (const [args, line] of [
  [['--capacity', '0'], /'--capacity <n>' argument '0' is invalid\. Expected a whole number from 1 to 100\.$/],
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
