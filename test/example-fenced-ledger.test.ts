import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { test } from 'node:test';
import { promisify } from 'node:util';

test('the fenced ledger: the holder that was stopped is refused, and its line is not in the ledger', async () => {
  const { stdout } = await promisify(execFile)(
    process.execPath,
    ['--import', 'tsx', require.resolve('../examples/fenced-ledger/main')],
    { timeout: 90_000 },
  );
  assert.match(stdout, /Refused: Stale fencing token for "ledger"/);
  assert.match(stdout, /Her Workflow learns of it: .* was lost: its lease ended before a renewal came/);
  assert.match(stdout, /The ledger: alice 1 \(epoch 1\), bob 1 \(epoch 2\), bob 2 \(epoch 2\)\n$/);
});
