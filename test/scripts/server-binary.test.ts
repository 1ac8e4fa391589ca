import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, test } from 'node:test';
import { promisify } from 'node:util';
import { findServer } from '../../scripts/support/find-server';

const NAME = 'TEMPORAL_SEMAPHORE_SERVER';
const before = process.env[NAME];

afterEach(() => {
  if (before === undefined) delete process.env[NAME];
  else process.env[NAME] = before;
});

async function resolveWith(value: string) {
  process.env[NAME] = value;
  return await findServer((line) => assert.fail(`took a step that takes time: ${line}`));
}

test('an executable named by the environment is taken', async () => {
  assert.deepEqual(await resolveWith(process.execPath), { path: process.execPath });
});

test('a download that is not whole yet is not taken', async (t) => {
  const cache = await mkdtemp(join(tmpdir(), 'server-binary-'));
  t.after(() => rm(cache, { recursive: true }));
  const downloads = join(cache, 'temporal-semaphore', 'download');
  await mkdir(downloads, { recursive: true });
  // As the SDK names them.
  const whole = join(downloads, 'temporal-sdk-typescript-1.24.0');
  for (const path of [whole, `${whole}.downloading`]) await writeFile(path, '', { mode: 0o755 });
  const script = `require('./scripts/support/find-server').findServer(() => process.exit(1)).then(({ path }) => console.log(path))`;
  const env = { ...process.env, [NAME]: '', PATH: '', XDG_CACHE_HOME: cache };
  const { stdout } = await promisify(execFile)(process.execPath, ['--import', 'tsx', '-e', script], { env });
  assert.equal(stdout.trim(), whole);
});

for (const address of ['localhost:7233', '10.0.0.7:443', 'temporal.example.com:7233']) {
  test(`the running server ${address} is taken`, async () => {
    assert.deepEqual(await resolveWith(address), { address });
  });
}

for (const value of ['/no/such/temporal', 'localhost', 'localhost:', 'http://localhost:7233', '/tmp', __filename]) {
  test(`${value} is refused with what was expected`, async () => {
    await assert.rejects(resolveWith(value), {
      message: `${NAME}: expected the path of a "temporal" executable or host:port, got "${value}"`,
    });
  });
}
