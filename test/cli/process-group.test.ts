import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ProcessGroup } from '../../src/cli/process-group';

// In a process of its own: it stands in for the system's `kill`.

test('a group of another user, which takes no signal, is no error: it runs on until it ends by itself', async (t) => {
  const group = new ProcessGroup(['sleep', '1'], process.env);
  group.begin();
  const kill = process.kill.bind(process);
  t.mock.method(process, 'kill', (pid: number, name: NodeJS.Signals | 0) => {
    if (pid !== -(group.id ?? 0) || name === 0) return kill(pid, name);
    throw Object.assign(new Error('kill EPERM'), { code: 'EPERM' });
  });
  assert.equal(group.signal('SIGINT'), true);
  await group.end(100);
  assert.equal(await group.exit, 0);
});
