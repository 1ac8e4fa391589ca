import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { test } from 'node:test';
import { buildSync } from 'esbuild';
import { endWithTests } from '../support/children';
import { eventually } from '../support/temporal';

/** For a parent that Node can run by itself: it starts in a tenth of the time. */
const [MODULE] = buildSync({
  entryPoints: [require.resolve('../../scripts/support/dies-with-us')],
  bundle: true,
  platform: 'node',
  format: 'iife',
  globalName: 'bundled',
  write: false,
}).outputFiles;

/** A parent whose child ends with it. The child heeds no TERM, as a server may. */
const PARENT = `${MODULE?.text}
const { spawn } = require('node:child_process');
const child = bundled.diesWithUs(spawn('sh', ['-c', 'trap "" TERM; while :; do sleep 0.1; done'], { stdio: 'ignore' }));
console.log(child.pid);
process.stdin.resume().once('end', () => process.exit(0));
`;

async function startParent(): Promise<{ parent: ChildProcess; child: number }> {
  const parent = endWithTests(spawn(process.execPath, ['-e', PARENT], { stdio: ['pipe', 'pipe', 'inherit'] }));
  const [said] = await once(parent.stdout ?? assert.fail(), 'data');
  return { parent, child: Number(said) };
}

async function untilGone(pid: number): Promise<void> {
  await eventually(async () => assert.throws(() => process.kill(pid, 0), { code: 'ESRCH' }));
}

for (const [how, end] of [
  ['kill -9', (parent: ChildProcess) => parent.kill('SIGKILL')],
  ['a signal that it does not handle', (parent: ChildProcess) => parent.kill('SIGTERM')],
  ['its own exit', (parent: ChildProcess) => parent.stdin?.end()],
] as const) {
  test(`a child ends with its parent, which ends by ${how}`, async () => {
    const { parent, child } = await startParent();
    process.kill(child, 0); // it lives
    end(parent);
    await once(parent, 'exit');
    await untilGone(child);
  });
}

test('a child that ends first keeps nobody waiting', async () => {
  const short = PARENT.replace('while :; do sleep 0.1; done', 'exit 0').replace(/process\.stdin.*/, '');
  const parent = endWithTests(spawn(process.execPath, ['-e', short], { stdio: 'ignore' }));
  assert.deepEqual(await once(parent, 'exit'), [0, null]);
});
