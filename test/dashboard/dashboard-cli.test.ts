import assert from 'node:assert/strict';
import { test } from 'node:test';
import { freePort } from '../../scripts/support/server-process';
import { CliHost } from '../support/cli-host';

const host = new CliHost();

for (const [what, args, message] of [
  [
    'a resource without a capacity after its =',
    ['pool='],
    /resource: expected <name>, <name>=<capacity> or .*, got "pool="/,
  ],
  ['a capacity of none', ['pool=0'], /capacity: expected /],
  [
    'a port that can not be',
    ['pool=1', '--port', '65536'],
    /--port: expected a whole number from 0 to 65535, got 65536/,
  ],
  ['a token that is easily guessed', ['pool=1', '--token', 'short'], /token: expected at least 16 characters/],
  ['a Web UI that is no web page', ['pool=1', '--ui', 'javascript:alert(1)'], /ui: expected a URL of http or https/],
] as const) {
  test(`dashboard refuses ${what}, in one line and before it calls the server`, async () => {
    const { code, stderr } = await host.run(['dashboard', ...args, '--address', `127.0.0.1:${await freePort()}`]);
    assert.equal(code, 64, stderr);
    assert.match(stderr, message);
    assert.equal(stderr.trimEnd().split('\n').length, 1);
  });
}
