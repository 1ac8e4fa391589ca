import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import { resolveServer } from '../src/dev-server/binary';

const NAME = 'TEMPORAL_SEMAPHORE_SERVER';
const before = process.env[NAME];

afterEach(() => {
  if (before === undefined) delete process.env[NAME];
  else process.env[NAME] = before;
});

async function resolveWith(value: string) {
  process.env[NAME] = value;
  return await resolveServer((line) => assert.fail(`took a step that takes time: ${line}`));
}

test('an executable named by the environment is taken', async () => {
  assert.deepEqual(await resolveWith(process.execPath), { path: process.execPath });
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
