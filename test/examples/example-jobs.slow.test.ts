import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { useProgram } from '../support/programs';
import { serverHas } from '../support/standalone-activities';

// The example of jobs without a Workflow, run as its reader runs it: the packed package and its files in an empty folder.

const run = promisify(execFile);

const program = useProgram('jobs');

test('five jobs without a Workflow run, never more than two at once', async (context) => {
  if (!(await serverHas('standaloneActivities', program.env.client, context))) return;
  const { stdout } = await run(process.execPath, ['--import', 'tsx', 'starter.ts'], program.inProject());
  assert.equal(stdout, 'cats.mp4\ndogs.mp4\nbirds.mp4\nbees.mp4\nants.mp4\n');
  let running = 0;
  for (const line of program.lines) {
    running += line.startsWith('begins') ? 1 : -1;
    assert.ok(running <= 2, program.lines.join('\n'));
  }
  assert.equal(program.lines.length, 10);
});
