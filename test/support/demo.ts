import assert from 'node:assert/strict';
import type { Ended } from './script';

const RUN_ID = '01[0-9a-f]{6}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}';

/** What a run of consumers says when all have ended. */
export function assertClosing({ code, out, errors }: Ended, consumers: number, capacity: number): void {
  assert.equal(code, 0, out + errors);
  assert.equal(errors, '');
  const lines = out.trimEnd().split('\n');
  const most = new RegExp(
    `^${consumers} of ${consumers} consumers finished; at most (\\d+) permits? held at once \\(capacity ${capacity}\\)$`,
    'm',
  ).exec(out);
  assert.ok(most, out);
  assert.ok(Number(most[1]) >= 1 && Number(most[1]) <= capacity, most[0]);

  const head = lines.findIndex((line) => /^consumer +slot +waited +held +run ID$/.test(line));
  const row = new RegExp(`^consumer-[0-9a-f]{6}-\\d+ +\\d+ +[\\d.]+ s +[\\d.]+ s +${RUN_ID}$`);
  const rows = lines.slice(head + 1, head + 1 + consumers);
  for (const line of rows) assert.match(line, row);
  assert.equal(new Set(rows.map((line) => line.split(/ +/).at(-1))).size, consumers, 'run IDs are distinct');
}
