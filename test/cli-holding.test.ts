import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { Interrupted } from '../src/cli/confirm';
import { runHolding, Signals } from '../src/cli/holding';
import type { PermitSet } from '../src/client';

test('a signal that comes before the command starts is heeded, and the command does not run', async () => {
  const interrupted = new AbortController();
  const file = join(tmpdir(), `never-${process.pid}`);
  const holding = runHolding({} as PermitSet, ['touch', file], new Signals(), interrupted.signal);
  interrupted.abort(new Interrupted('SIGTERM')); // while the guard starts
  await assert.rejects(holding, Interrupted);
  assert.ok(!existsSync(file));
});
