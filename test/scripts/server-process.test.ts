import assert from 'node:assert/strict';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { findServer } from '../../scripts/support/find-server';
import { spawnServer } from '../../scripts/support/server-process';

test('a server whose port somebody else has taken meanwhile starts on another', async (t) => {
  const source = await findServer();
  if (!('path' in source)) return t.skip('a server that runs already');
  const directory = await mkdtemp(join(tmpdir(), 'taken-port-'));
  const executable = join(directory, 'temporal');
  const listener =
    "require('net').createServer().listen(+process.argv[1], '127.0.0.1'); setTimeout(process.exit, 5_000)";
  const script = `#!/bin/sh
if [ -e "${directory}/again" ]; then exec "${source.path}" "$@"; fi
touch "${directory}/again"
"${process.execPath}" -e "${listener}" "$6" &
sleep 1
echo "bind: address already in use" >&2
exit 1
`;
  await writeFile(executable, script);
  await chmod(executable, 0o755);
  const startedMs = performance.now();
  const server = await spawnServer(executable);
  await server.stop();
  await rm(directory, { recursive: true });
  assert.ok(performance.now() - startedMs < 30_000, 'it has waited for somebody else to answer');
});
