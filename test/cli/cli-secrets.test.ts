import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { connectConfig } from '../../src/cli/connection';
import { CliHost } from '../support/cli-host';

// A mistake in the configuration must not print the secrets in it.

const directory = mkdtempSync(join(tmpdir(), 'cli-secrets-'));
after(() => rmSync(directory, { recursive: true }));

/** Something listens, so each command gets as far as it can without a Temporal server. */
const listener = createServer((socket) => socket.on('error', () => undefined).destroy());
let address = '';
before(async () => {
  await once(listener.listen(0, '127.0.0.1'), 'listening');
  address = `127.0.0.1:${(listener.address() as { port: number }).port}`;
});
after(() => listener.close());

const COMMANDS = [
  ['ls'],
  ['doctor'],
  ['worker'],
  ['dashboard', 'x=1', '--port', '0'],
  ['run', 'x', '--capacity', '1', '--', 'true'],
];

/** What the commands say and how they exit, with this configuration file. */
async function said(host: CliHost, toml: string, path = join(directory, `${Math.random()}.toml`)) {
  writeFileSync(path, toml);
  const ended = [];
  for (const [name = '', ...rest] of COMMANDS) {
    ended.push(await host.run([name, '--config-file', path, '--address', address, ...rest]));
  }
  return ended;
}

const host = new CliHost();

const PROFILE = '[profile.default]\n';
const TLS = '[profile.default.tls]\n';

for (const [what, toml, expected] of [
  ['an API key without its end', `${PROFILE}api_key = "SECRET\nnamespace = "x"\n`, /\.toml, line 2: control/],
  ['an API key without quotes', `${PROFILE}api_key = SECRET\n`, /line 2: invalid value/],
  ['a mistake below the API key', `${PROFILE}api_key = "SECRET"\nnamespace = x\n`, /line 3: invalid value/],
  ['a mistake above the API key', `${PROFILE}namespace x\napi_key = "SECRET"\n`, /line 2: illegal character/],
  [
    'a key that never ends',
    `${TLS}client_key_data = """-----BEGIN PRIVATE KEY-----\nSECRET\nx=1\n`,
    /line 2: unfinished/,
  ],
  ['the key of a codec', `${PROFILE}[profile.default.codec]\nauth = SECRET\n`, /line 3: invalid value/],
  ['metadata without quotes', `${PROFILE}[profile.default.grpc_meta]\nauthorization = SECRET\n`, /line 3/],
  ['a profile that is a text', 'profile.default = "SECRET"\n', /value of the wrong type/],
  ['an API key that is a list', `${PROFILE}api_key = ["SECRET"]\n`, /API key.*expected a string/],
  ['an API key of two lines', `${PROFILE}api_key = "SECRET\\n1234"\n`, /API key.*printable ASCII/],
  ['an API key with a control character', `${PROFILE}api_key = "SECRET\\u0001"\n`, /API key.*printable ASCII/],
  ['an API key with an accent', `${PROFILE}api_key = "SECRETé"\n`, /API key.*printable ASCII/],
  [
    'metadata of two lines',
    `${PROFILE}[profile.default.grpc_meta]\nx-key = "SECRET\\n1"\n`,
    /"x-key".*printable ASCII/,
  ],
  [
    'metadata that is a list',
    `${PROFILE}[profile.default.grpc_meta]\nx-key = ["SECRET"]\n`,
    /"x-key".*expected a string/,
  ],
  ['a name of metadata that none can be', `${PROFILE}[profile.default.grpc_meta]\n"SECRET é" = "1"\n`, /metadata/],
  ['a key in place of its path', `${TLS}client_key_path = "-----BEGIN PRIVATE KEY-----\\nSECRET"\n`, /content.*path/],
  ['a path that is a list', `${TLS}client_key_path = ["SECRET"]\n`, /value of the wrong type/],
] satisfies [string, string, RegExp][]) {
  test(`refused without its text: ${what}`, async () => {
    for (const { code, stdout, stderr } of await said(host, toml)) {
      assert.doesNotMatch(stdout + stderr, /SECRET|BEGIN/);
      assert.match(stderr, expected);
      assert.equal(code, 64, stderr);
    }
  });
}

test('a certificate and a key that are none are named, and not printed', async () => {
  const toml = `${TLS}client_cert_data = "SECRET"\nclient_key_data = "SECRET"\n`;
  for (const { code, stdout, stderr } of await said(host, toml)) {
    assert.doesNotMatch(stdout + stderr, /SECRET/);
    assert.match(stderr, /client certificate/);
    assert.equal(code, 64, stderr);
  }
});

test('a key that a variable brings is not printed either', async () => {
  const variables = { TEMPORAL_API_KEY: 'SECRET\r\n1234', TEMPORAL_GRPC_META_X_KEY: 'SECRET\n1234' };
  const hosts = Object.entries(variables).map(([name, value]) => new CliHost(false, { [name]: value }));
  const [withKey = [], withMeta = []] = await Promise.all(hosts.map(async (it) => await said(it, PROFILE)));
  for (const { code, stdout, stderr } of [...withKey, ...withMeta]) {
    assert.doesNotMatch(stdout + stderr, /SECRET/);
    assert.equal(code, 64, stderr);
  }
  assert.match(withKey[0]?.stderr ?? '', /TEMPORAL_API_KEY/);
  assert.match(withMeta[0]?.stderr ?? '', /"x-key"/);
});

test('a mounted secret ends in a newline: that is no part of it', () => {
  const path = join(directory, 'mounted.toml');
  writeFileSync(path, `${PROFILE}[profile.default.grpc_meta]\nx-key = "meta\\n"\n`);
  const { connectionOptions } = connectConfig({ apiKey: ' key\r\n', configFile: path });
  assert.deepEqual([connectionOptions.apiKey, connectionOptions.metadata], ['key', { 'x-key': 'meta' }]);
});
