import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { freePort } from '../../scripts/support/server-process';
import { makeProgram } from '../../src/cli/program';
import { CliHost } from '../support/cli-host';

// What the command line says before it has reached any server, or because there is none.

const host = new CliHost();

/** Its exit code, and what it said. */
async function cli(...args: string[]) {
  return await host.run(args);
}

for (const [what, args, expected] of [
  ['no --', ['run', 'pool', '--capacity', '1', 'echo'], /put -- before the command/],
  ['nothing behind --', ['run', 'pool', '--capacity', '1', '--'], /: the command is missing after the --\./],
  ['neither capacity nor slots', ['run', 'pool', '--', 'true'], /: give --capacity .* or --slots/],
  ['both', ['run', 'pool', '--capacity', '1', '--slots', 'a', '--', 'true'], /'--capacity <n>' cannot be used with/],
  ['a timeout without a unit', ['run', 'pool', '--capacity', '1', '--timeout', '5', '--', 'true'], /such as 5s/],
  ['a lease without a unit', ['run', 'pool', '--capacity', '1', '--lease', '30', '--', 'true'], /such as 5s/],
  ['a pause without a unit', ['watch', 'pool', '--every', '2'], /such as 5s/],
  ['an unknown format', ['ls', '-o', 'yaml'], /Allowed choices are text, json, jsonl/],
  ['a CA that is not there', ['ls', '--tls-ca-path', '/nonexistent'], /\/nonexistent/],
  ['a certificate that is not there', ['worker', '--tls-cert-path', '/nonexistent'], /\/nonexistent/],
  ['a URL for an address', ['ls', '--address', 'http://127.0.0.1:7233'], /the address .*: expected <host>:<port>/],
  ['a port that is none', ['worker', '--address', 'localhost:72333'], /the address .*: expected <host>:<port>/],
  ['an empty address', ['ls', '--address', ''], /the address .*: expected <host>:<port>/],
  ['an empty namespace', ['ls', '-n', ''], /the namespace .*: expected a name, got an empty string/],
  ['a day that no calendar has', ['pause', 'pool', '--until', '2027-02-30T10:00:00Z'], /Expected a time in the future/],
  ['a profile that is not there', ['ls', '--profile', 'nosuch'], /nosuch/],
  ['a configuration that is not there', ['ls', '--config-file', '/nonexistent'], /--config-file: .*\/nonexistent/],
] satisfies [string, string[], RegExp][]) {
  test(`refused, exit code 64: ${what}`, async () => {
    const { code, stdout, stderr } = await cli(...args);
    assert.deepEqual([code, stdout], [64, ''], stderr);
    assert.match(stderr, expected);
    assert.ok(stderr.trimEnd().split('\n').length <= 2, stderr);
  });
}

test('a configuration file that is there is taken', async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'cli-usage-'));
  t.after(() => rmSync(directory, { recursive: true }));
  const path = join(directory, 'temporal.toml');
  const port = await freePort();
  writeFileSync(path, `[profile.default]\naddress = "127.0.0.1:${port}"\n`);
  const { code, stderr } = await cli('ls', '--config-file', path);
  assert.equal(code, 69);
  assert.match(stderr, new RegExp(`127\\.0\\.0\\.1:${port}`));
});

test('no server: the address and what to do, before gRPC is asked, which would tell neither', async () => {
  const address = `127.0.0.1:${await freePort()}`;
  for (const args of [['ls'], ['worker'], ['run', 'pool', '--capacity', '1'], ['doctor']]) {
    const command = args[0] === 'run' ? ['--', 'true'] : [];
    const { code, stderr } = await cli(...args, '--address', address, ...command);
    assert.equal(code, 69);
    const expected = `temporal-semaphore: No Temporal server can be reached at ${address}: nothing listens there.`;
    assert.ok(stderr.startsWith(expected) && stderr.includes('--address') && !stderr.includes('Os {'), stderr);
  }
});

test('a host that is not there is named', async () => {
  const { code, stderr } = await cli('ls', '--address', 'no-such-host.invalid:7233');
  assert.equal(code, 69);
  assert.match(stderr, /no-such-host\.invalid:7233: (there is no such host|the name can't be looked up)/);
});

test('each command shows an example', async () => {
  const { commands } = await makeProgram(() => undefined);
  const names = commands.map((command) => command.name()).filter((name) => name !== 'complete');
  assert.ok(names.includes('run') && names.includes('completion'), names.join());
  for (const command of commands.filter((it) => names.includes(it.name()))) {
    let help = '';
    command.configureOutput({ writeOut: (said) => (help += said) }).outputHelp();
    assert.match(help, new RegExp(`Examples?:.*temporal-semaphore ${command.name()}`, 's'), command.name());
  }
});

test('no line of a help is wider than 80 columns', async () => {
  const program = await makeProgram(() => undefined);
  for (const command of [program, ...program.commands]) {
    let help = '';
    command.configureOutput({ writeOut: (said) => (help += said), getOutHelpWidth: () => 80 }).outputHelp();
    const wide = help.split('\n').filter((line) => line.length > 80);
    assert.deepEqual(wide, [], command.name());
  }
});

test('shells complete commands and flags', async () => {
  const [script, commands, flags] = await Promise.all([
    cli('completion', 'bash'),
    cli('complete', '--', 're'),
    cli('complete', '--', 'run', 'pool', '--cap'),
  ]);
  assert.equal(script.code, 0);
  assert.match(script.stdout, /complete .*temporal-semaphore/);
  const named = [...commands.stdout.matchAll(/^(\w+)\t/gm)].map(([, name]) => name);
  assert.deepEqual(named.sort(), ['resize', 'resume', 'revoke']);
  assert.match(flags.stdout, /^--capacity\t/m);
});
