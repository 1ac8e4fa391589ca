import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { test } from 'node:test';
import { promisify } from 'node:util';

test('the fenced ledger: the holder that was stopped is refused, and its line is not in the ledger', async () => {
  const { stdout, stderr } = await promisify(execFile)(
    process.execPath,
    ['--import', 'tsx', require.resolve('../../examples/fenced-ledger/main')],
    { timeout: 180_000 },
  );
  assert.match(stdout, /Refused: Stale fencing token for "ledger"/);
  assert.match(stdout, /Her Workflow learns of it: .* was lost: its lease ended before it was renewed/);
  assert.doesNotMatch(stderr, /Error/, 'a worker complained');
  const waitedSeconds = secondsOf(stdout, "alice's lease has run out") - secondsOf(stdout, 'bob asks for the permit');
  // The lease is 2 s, and his recheck would come after 30 s.
  assert.ok(waitedSeconds < 28, `Bob waited ${waitedSeconds} s: was he served by the queue?`);
  assert.match(stdout, /The ledger: alice 1 \(epoch 1\), bob 1 \(epoch 2\), bob 2 \(epoch 2\)\n$/);
});

/** When the example said this line. */
function secondsOf(stdout: string, line: string): number {
  return Number(stdout.match(new RegExp(`([\\d.]+) s  ${line}`))?.[1]);
}
