import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Connection } from '@temporalio/client';
import { lacking } from '../scripts/support/requirements';
import { checkPortIsFree, freePort } from '../src/dev-server/process';
import { CliProcess } from './support/cli-process';

test('temporal-semaphore server runs a server until it is told to end', { skip: lacking('ownServer') }, async (t) => {
  const port = await freePort();
  const server = new CliProcess(['server', '--port', String(port)]);
  t.after(() => server.signal('SIGKILL'));
  const address = await server.says(/Temporal server: (\S+), state in memory/);
  await (await Connection.connect({ address })).close();
  const second = new CliProcess(['server', '--port', String(port)]);
  assert.equal(await second.exit, 69);
  assert.match(second.stderr, /expected a free port/);
  server.signal('SIGTERM');
  assert.equal(await server.exit, 0, server.stderr);
  await checkPortIsFree(port, 'nobody');
});
