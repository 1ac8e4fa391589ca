import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { CancelledFailure, WorkflowFailedError } from '@temporalio/client';
import { ROOT, readPage } from '../support/pages';
import { useProgram } from '../support/programs';
import { eventually } from '../support/temporal';

// The program of the README, run as its reader runs it: the packed package and the four files in an empty folder.

const run = promisify(execFile);

const program = useProgram('hello', { more: ['@temporalio/testing'] });
const { inProject, lines, stopWorker } = program;

/** The GPU of each model that has started, in their order. No GPU is ever given to a model before the one before has left. */
function startedOn(): Map<string, string> {
  const started = new Map<string, string>();
  const users = new Map<string, string>();
  for (const line of lines) {
    const [, model = '', does, gpu = ''] = /^(\S+) (starts|leaves).* GPU (\d+)$/.exec(line) ?? [];
    if (does === 'starts') {
      assert.equal(users.get(gpu), undefined, lines.join('\n'));
      users.set(gpu, model);
      started.set(model, gpu);
    } else if (does === 'leaves') {
      assert.equal(users.get(gpu), model, lines.join('\n'));
      users.delete(gpu);
    }
  }
  return started;
}

test('worker and starter print what the README says: three models are trained, one at a time on each GPU', async () => {
  const { stdout } = await run(process.execPath, ['--import', 'tsx', 'starter.ts'], inProject());
  assert.deepEqual(
    stdout
      .trim()
      .split('\n')
      .map((line) => line.replace(/\d$/, 'n')),
    ['alpha', 'beta', 'gamma'].map((model) => `${model} was trained on GPU n`),
  );
  assert.deepEqual([...startedOn().keys()].sort(), ['alpha', 'beta', 'gamma']);
});

test('when a Workflow is cancelled, the next model does not start before its activity has stopped', async () => {
  const start = (model: string) =>
    program.env.client.workflow.start('trainModel', {
      taskQueue: 'training',
      workflowId: `train-${model}`,
      args: [model],
    });
  const [first, second] = [await start('first'), await start('second')];
  await eventually(async () => assert.ok(startedOn().has('first') && startedOn().has('second')));
  const third = await start('third');
  await first.cancel();
  await assert.rejects(
    first.result(),
    (error) => error instanceof WorkflowFailedError && error.cause instanceof CancelledFailure,
  );
  await Promise.all([second.result(), third.result()]);
  assert.ok(startedOn().has('third'));
});

test('the test of docs/in-workflows.md passes', async () => {
  await stopWorker(); // it would take the test's tasks
  const path = 'docs/in-workflows.md';
  const { blocks } = readPage(path, readFileSync(join(ROOT, path), 'utf8'));
  const { code } = blocks.find(({ code }) => code.includes('createLocal()')) ?? assert.fail('it shows no test');
  const [install, start = ''] =
    blocks
      .find(({ language }) => language === 'sh')
      ?.code.trim()
      .split('\n') ?? [];
  assert.equal(install, 'npm install -D @temporalio/testing');
  const [node, ...args] = start.split(' ');
  assert.equal(node, 'node');
  const ours = code.replace('createLocal()', `createFromExistingServer({ address: '${program.env.address}' })`);
  assert.notEqual(ours, code);
  await writeFile(join(program.project, args.at(-1) ?? ''), ours);
  const { NODE_TEST_CONTEXT: _, ...outside } = process.env; // it is no test of this one
  const { stdout } = await run(process.execPath, args, { cwd: program.project, env: outside, timeout: 120_000 });
  assert.match(stdout, /^# pass 1$/m);
});
