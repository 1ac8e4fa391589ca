import assert from 'node:assert/strict';
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { freePort } from '../../scripts/support/server-process';
import { TcpProxy } from '../../scripts/support/tcp-proxy';
import { SemaphoreClient } from '../../src/client';
import { endWithTests } from '../support/children';
import { installPackage } from '../support/installed-package';
import { eventually, useTemporal } from '../support/temporal';

// What docs/production.md says, but for the image: its arguments, its variables and nothing else, its probes and its grace.

const temporal = useTemporal();

/** What the image has in its folder. */
let image: string;

before(async () => {
  image = await mkdtemp(join(tmpdir(), 'temporal-semaphore-image-'));
  const beside = ['@temporalio/client', '@temporalio/common', '@temporalio/worker', '@temporalio/workflow'] as const;
  const page = await readFile(PAGE, 'utf8');
  for (const name of beside) assert.ok(page.includes(` ${name}`), name);
  await installPackage(image, beside);
  letAllRead(image);
});

after(async () => {
  if (image) await rm(image, { recursive: true });
});

const PAGE = join(__dirname, '..', '..', 'docs', 'production.md');

interface Container {
  args: string[];
  env: Record<string, string>;
  /** The path of both probes. */
  probe: string;
  port: string;
}

/** The first container of this Deployment, as the page writes it. */
async function container(deployment: string): Promise<Container> {
  const page = await readFile(PAGE, 'utf8');
  const blocks = [...page.matchAll(/```yaml\n(.*?)```/gs)].map(([, block = '']) => block);
  const yaml = blocks.find((block) => block.includes(`metadata: { name: ${deployment} }`)) ?? assert.fail(deployment);
  const [, args = ''] = /args: (\[.*\])/.exec(yaml) ?? assert.fail('no args');
  const env = [...yaml.matchAll(/\{ name: (\w+), value: ["'](.*?)["'] \}/g)].map(([, name, value]) => [name, value]);
  const probes = [...yaml.matchAll(/Probe: \{ httpGet: \{ path: (\S+), port: (\w+) \}/g)];
  const [, probe = '', name] = probes[0] ?? assert.fail('no probe');
  assert.equal(probes.length, 2);
  const [, port = ''] = new RegExp(`name: ${name}, containerPort: (\\d+)`).exec(yaml) ?? assert.fail('no port');
  return { args: JSON.parse(args.replaceAll("'", '"')), env: Object.fromEntries(env), probe, port };
}

/** How long Kubernetes waits after SIGTERM before it kills. */
async function graceMs(): Promise<number> {
  const [, seconds] = /terminationGracePeriodSeconds: (\d+)/.exec(await readFile(PAGE, 'utf8')) ?? [];
  return Number(seconds) * 1_000;
}

/** A user without rights, as the page's, where we may become one. */
const USER = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : {};

function letAllRead(path: string): void {
  assert.equal(spawnSync('chmod', ['-R', 'a+rX', path]).status, 0);
}

/** The image's entry point, from its working directory. */
async function entryPoint(): Promise<string[]> {
  const [, words = ''] = /^ENTRYPOINT (\[.*\])$/m.exec(await readFile(PAGE, 'utf8')) ?? assert.fail('no entry point');
  const [node, ...rest] = JSON.parse(words);
  assert.equal(node, 'node');
  return rest;
}

/** Starts the container's process with these variables alone, on another port. */
async function start({ args, probe, port }: Container, env: Record<string, string>) {
  const ours = String(await freePort());
  const moved = args.map((arg) => arg.replace(new RegExp(`\\b${port}$`), ours));
  assert.notDeepEqual(moved, args, 'the probed port is none of the arguments');
  const child = endWithTests(
    spawn(process.execPath, [...(await entryPoint()), ...moved], {
      ...USER,
      env,
      cwd: image,
      stdio: ['ignore', 'pipe', 'pipe'],
    }),
  );
  let said = '';
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', (text) => (said += text));
  const url = `http://127.0.0.1:${ours}`;
  const isHealthy = () =>
    fetch(`${url}${probe}`).then(
      ({ status }) => status === 200,
      () => false,
    );
  await eventually(async () => assert.ok(await isHealthy(), `${args[0]} is not healthy: ${said}`));
  return { child, url, isHealthy, said: () => said };
}

/** As Kubernetes does. @returns its exit code; `null` when it had to be killed */
async function terminate(child: ChildProcess): Promise<number | null> {
  const late = setTimeout(() => child.kill('SIGKILL'), await graceMs());
  child.kill('SIGTERM');
  const [code] = await once(child, 'exit');
  clearTimeout(late);
  return code;
}

test('two permit workers, by variables and by a mounted file: healthy; one drains in its grace, and the other takes over meanwhile', async (t) => {
  const worker = await container('permit-worker');
  assert.deepEqual(Object.keys(worker.env), ['TEMPORAL_ADDRESS', 'TEMPORAL_NAMESPACE']);
  const address = temporal.env.address;
  const first = await start(worker, { ...worker.env, TEMPORAL_ADDRESS: address });
  await eventually(async () =>
    assert.match(first.said(), /permits run on task queue "permits" of namespace "default"/),
  );

  const resource = temporal.resource();
  const pool = new SemaphoreClient(temporal.client, resource, { capacity: 1, taskQueue: 'permits' });
  const permit = await pool.acquire();
  const next = pool.acquire();

  const directory = await mkdtemp(join(tmpdir(), 'temporal-semaphore-'));
  t.after(() => rm(directory, { recursive: true }));
  const file = join(directory, 'temporal.toml');
  await writeFile(file, `[profile.default]\naddress = "${address}"\nnamespace = "default"\n`);
  letAllRead(directory);
  const second = await start(worker, { TEMPORAL_CONFIG_FILE: file });
  await eventually(async () =>
    assert.match(second.said(), /permits run on task queue "permits" of namespace "default"/),
  );

  const exit = terminate(first.child);
  await permit.release();
  const taken = await next;
  assert.equal(await exit, 0, first.said());
  assert.equal(await first.isHealthy(), false);
  await taken.release();
  await pool.withPermit(async () => undefined);
  assert.ok(await second.isHealthy());
  assert.equal(await terminate(second.child), 0, second.said());
});

test('the page: healthy without its token and in an outage, which /readyz tells; open to nobody without it, and ended by SIGTERM', async (t) => {
  const page = await container('permit-page');
  const TEMPORAL_SEMAPHORE_TOKEN = 'a-token-of-the-secret';
  const proxy = await TcpProxy.to(temporal.env.address);
  t.after(() => proxy.close());
  const { child, url, isHealthy, said } = await start(page, {
    ...page.env,
    TEMPORAL_ADDRESS: proxy.address,
    TEMPORAL_SEMAPHORE_TOKEN,
  });
  const status = async (path: string, headers: Record<string, string> = {}) =>
    (await fetch(`${url}${path}`, { headers })).status;
  assert.equal(await status('/'), 401);
  assert.equal(await status('/', { authorization: `Bearer ${TEMPORAL_SEMAPHORE_TOKEN}` }), 200);
  assert.equal(await status('/readyz'), 200);
  proxy.cut('reset');
  await eventually(async () => assert.equal(await status('/readyz'), 503));
  assert.ok(await isHealthy());
  assert.equal(await terminate(child), 0, said());
});
