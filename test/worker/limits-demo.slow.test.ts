import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { SemaphoreClient } from '../../src/client';
import { Operator } from '../../src/operator';
import { keyResource } from '../../src/shared/key-names';
import { queueId } from '../../src/shared/permit-id';
import { CliHost } from '../support/cli-host';
import { CliProcess } from '../support/cli-process';
import { until, useTemporal } from '../support/temporal';

// The demo of docs/limits-as-code.md, with its file: a permit worker mends what drifts, by its own clock.

const temporal = useTemporal();
const host = new CliHost();
const directory = mkdtempSync(join(tmpdir(), 'limits-demo-'));
after(() => rmSync(directory, { recursive: true }));

const DOCS = join(__dirname, '..', '..', 'docs', 'limits-as-code.md');
const WITHIN_MS = 120_000;

function demoFile(): string {
  const [, , text] = /## A demo\n(.*?)```yaml\n(.*?)```/s.exec(readFileSync(DOCS, 'utf8')) ?? [];
  const path = join(directory, 'limits.yaml');
  writeFileSync(path, text ?? assert.fail('docs/limits-as-code.md has no demo'));
  return path;
}

test('a file is planned and applied; its worker mends a terminated queue, a resize and a key that comes later, within two minutes', async (t) => {
  const { client, taskQueue, env } = temporal;
  const path = demoFile();
  const run = async (...args: string[]) => await host.run([...args, '--address', env.address]);
  const of = (resource: string, capacity: number) => new Operator(client, resource, { capacity, taskQueue });
  const gpus = of('demo-gpus', 3);
  const vendor = of('demo-vendor', 5);
  const later = of(keyResource('demo-openai', 'globex'), 1);
  const overrides = async () => {
    const seen = await Promise.all([gpus, vendor, later].map((it) => it.inspect({ recent: 0, search: false })));
    return seen.map(({ override }) => override?.capacity ?? (override?.paused ? 'paused' : undefined));
  };

  const planned = await run('plan', path);
  assert.deepEqual([planned.code, /\n3 to change, 0 in force/.test(planned.stdout)], [2, true], planned.stdout);
  assert.equal((await run('apply', path, '--yes', '--task-queue', taskQueue)).code, 0);
  assert.equal((await run('plan', path)).code, 0);
  assert.deepEqual(await overrides(), [2, 'paused', undefined]);

  const worker = new CliProcess(['worker', '--limits', path, '--task-queue', taskQueue, '--address', env.address]);
  try {
    await worker.says(/(permits run on task queue)/);
    const sinceMs = performance.now();
    await client.workflow.getHandle(queueId('demo-vendor')).terminate();
    await gpus.resize(3, { reason: 'by hand' });
    const calls = new SemaphoreClient(client, 'demo-openai', { capacity: 9, perKey: 1, taskQueue });
    const permit = await calls.acquire({ key: 'globex' });
    await until(async () => String(await overrides()) === '2,paused,2', WITHIN_MS);
    t.diagnostic(`all are mended after ${Math.round((performance.now() - sinceMs) / 1_000)} s`);
    assert.match(worker.stderr + worker.stdout, /demo-gpus: 3 -> 2, by version 1 of the limits file /);
    await permit.release();
    await gpus.resize(3, { until: new Date(Date.now() + 60_000), reason: 'a demo' }); // the worker leaves it alone
  } finally {
    worker.signal('SIGTERM');
    await worker.exit;
  }
  await vendor.resume();
  await gpus.resize(3);
  await later.resize(1);
  await of(keyResource('demo-openai', 'acme'), 1).resize(1);
});
