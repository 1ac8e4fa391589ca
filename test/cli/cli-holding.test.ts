import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { runHolding, Signals } from '../../src/cli/holding';
import { Interrupted } from '../../src/cli/terminal';
import type { PermitSet } from '../../src/client';

test('a signal that comes before the command starts is heeded, and the command does not run', async () => {
  const interrupted = new AbortController();
  const file = join(tmpdir(), `never-${process.pid}`);
  const holding = runHolding({} as PermitSet, ['touch', file], new Signals(), interrupted.signal);
  interrupted.abort(new Interrupted('SIGTERM')); // while the guard starts
  await assert.rejects(holding, Interrupted);
  assert.ok(!existsSync(file));
});

test('a permit that is lost before the command starts costs the command its start: try again', async () => {
  const file = join(tmpdir(), `lost-${process.pid}`);
  const set = { signal: AbortSignal.abort(new Error('The permit is gone.')) } as PermitSet;
  const code = await runHolding(set, ['touch', file], new Signals(), new AbortController().signal);
  assert.equal(code, 75);
  assert.ok(!existsSync(file));
});
