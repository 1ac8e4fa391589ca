import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { useBrowser } from '../support/browser';
import { useProgram } from '../support/programs';

// The example of declared limits, run as its reader runs it: the packed package and its files in an empty folder.

const run = promisify(execFile);

const program = useProgram('limits');
const { inProject, lines } = program;
const browser = useBrowser();

interface Run {
  type: string;
  tenant: string;
  from: string;
  to: string;
}

function mostAtOnce(runs: readonly Run[]): number {
  return Math.max(...runs.map(({ from }) => runs.filter((run) => run.from <= from && from < run.to).length));
}

test('no more run at once than limits.ts says: of all, of a tenant, and of an activity', async () => {
  const { stdout } = await run(process.execPath, ['--import', 'tsx', 'starter.ts'], inProject());
  const runs = stdout
    .trim()
    .split('\n')
    .map((line): Run => {
      const [type = '', tenant = '', from = '', to = ''] = line.split(' ');
      return { type, tenant, from, to };
    });
  assert.equal(runs.length, 12, stdout);
  const onGpus = runs.filter(({ type }) => type !== 'exportReport');
  assert.ok(mostAtOnce(onGpus) <= 3, stdout);
  assert.ok(mostAtOnce(runs.filter(({ type }) => type === 'exportReport')) <= 1, stdout);
  for (const name of ['acme', 'globex']) assert.ok(mostAtOnce(onGpus.filter(({ tenant }) => tenant === name)) <= 2);
  let calls = 0;
  for (const line of lines) {
    calls += /^the vendor begins/.test(line) ? 1 : -1;
    assert.ok(calls <= 2, lines.join('\n'));
  }
  assert.equal(lines.length, 24);
});

test('a script waits for the vendor by the same declaration', async () => {
  const { stdout } = await run(process.execPath, ['--import', 'tsx', 'script.ts'], inProject());
  assert.match(stdout, /^the vendor begins with the script\nthe vendor is done with the script\n$/);
});

test('the page shows limited Workflows by their own IDs: who holds, and who waits', async () => {
  const cli = join(program.project, 'node_modules', '.bin', 'temporal-semaphore');
  const dashboard = spawn(process.execPath, [cli, 'dashboard', '--port', '0', 'gpus=3'], {
    ...inProject(),
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  try {
    const [url] = await once(dashboard.stdout ?? assert.fail(), 'data');
    const page = await browser.open(String(url).trim());
    const starter = run(process.execPath, ['--import', 'tsx', 'starter.ts'], inProject());
    await page
      .getByRole('button', { name: /^Revoke slot ., held by (trainModel|renderVideo)-/ })
      .first()
      .waitFor();
    await page
      .locator('.queue li', { hasText: /(trainModel|renderVideo)-(acme|globex)-/ })
      .first()
      .waitFor();
    await starter;
    await page.close(); // before the server of its stream goes: the page would complain
  } finally {
    dashboard.kill('SIGTERM');
  }
});
