import assert from 'node:assert/strict';
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { cp, mkdir, mkdtemp, readdir, readFile, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { build } from 'esbuild';
import { devDependencies, exports as packageExports, version as packageVersion } from '../../package.json';
import { startServer, type TemporalServer } from '../../scripts/support/temporal-server';
import { SemaphoreClient } from '../../src/client';
import { installPackage } from '../support/installed-package';
import { childOf, isAlive } from '../support/processes';

const run = promisify(execFile);

const ROOT = join(__dirname, '..', '..');
const TSC = require.resolve('typescript/bin/tsc');
const CONSUMER = join(__dirname, 'consumer');
const PACKAGES = [
  '@temporalio/client',
  '@temporalio/common',
  '@temporalio/worker',
  '@temporalio/workflow',
  '@types/node',
] as const;
/** The command line and the dashboard's server are made with these. */
const BUNDLED = [
  '@bomb.sh/tab',
  '@hono/node-server',
  'cli-table3',
  'cli-truncate',
  'commander',
  'hono',
  'log-update',
  'picocolors',
  'yaml',
] as const satisfies readonly (keyof typeof devDependencies)[];
/** The declarations of `@temporalio/common` 1.24 import those of `ms`, and do not bring them. */
const MISSING_TYPES = { '@types/ms': '^2.1.0' };

/** No `skipLibCheck`: the point is that our declarations hold where only our package and its peers are installed. */
const COMPILER_OPTIONS = { target: 'es2022', module: 'node16', strict: true, types: ['node'], lib: ['es2022'] };

const TYPES = ['commonjs', 'module'] as const;

let env: TemporalServer;
let project: string;

before(async () => {
  project = await mkdtemp(join(tmpdir(), 'temporal-semaphore-consumer-'));
  const installing = installPackage(project, PACKAGES, MISSING_TYPES);
  installing.catch(() => undefined); // awaited below, when the server can be stopped
  env = await startServer();
  await installing;
  await compileApps();
});

after(async () => {
  await env?.teardown();
  if (project) await rm(project, { recursive: true });
});

async function readInstalled(...path: string[]): Promise<string> {
  return await readFile(join(project, 'node_modules', 'temporal-semaphore', ...path), 'utf8');
}

test('it brings no package but those of the SDK', async () => {
  const { dependencies = {}, optionalDependencies = {} } = JSON.parse(await readInstalled('package.json'));
  assert.deepEqual(
    Object.keys({ ...dependencies, ...optionalDependencies }).filter((name) => !name.startsWith('@temporalio/')),
    [],
  );
});

test('the licence of each package that the command line and the page are made with is in it', async () => {
  const licences =
    (await readInstalled('lib', 'cli', 'licences.txt')) +
    (await readInstalled('lib', 'dashboard', 'page', 'licences.txt'));
  assert.match(await readInstalled('lib', 'limits', 'licences.txt'), /^yaml /);
  for (const name of [...BUNDLED, 'preact']) {
    const { version } = JSON.parse(await readFile(join(ROOT, 'node_modules', name, 'package.json'), 'utf8'));
    const [, text = ''] = licences.split(`${name} ${version}\n\n`);
    assert.match(text.slice(0, 300), /Copyright/, name);
  }
});

const ENTRIES = Object.keys(packageExports)
  .filter((entry) => entry !== '.' && entry !== './package.json')
  .map((entry) => `temporal-semaphore/${entry.slice(2)}`);

test('every entry loads, and what only this repository needs is not in it', async () => {
  const script = ENTRIES.map((entry) => `require('${entry}');`).join('\n');
  await run(process.execPath, ['-e', script], { cwd: project });

  const files = await readdir(join(project, 'node_modules', 'temporal-semaphore'), { recursive: true });
  const foreign = /example|go-install|\.test\.|dies-with-us|src\/(cli|dashboard)\//;
  assert.deepEqual(
    files.filter((file) => foreign.test(file)),
    [],
  );
  // A permit worker loads it, and no YAML library is installed.
  const reader = JSON.stringify(join(project, 'node_modules', 'temporal-semaphore', 'lib', 'limits', 'limits-file.js'));
  const reading = `console.log(require(${reader}).readLimitsFile('{ version: 3, resources: { a: { capacity: 1 } } }', 'x').version)`;
  assert.equal((await run(process.execPath, ['-e', reading], { cwd: tmpdir() })).stdout, '3\n');
  // By it, editors complete a limits file.
  assert.ok(JSON.parse(await readInstalled('lib', 'limits.schema.json')).properties.resources);
  // What a source map names is there.
  assert.ok(files.includes('src/client/semaphore-client.ts'));
});

test('each entry that loads the SDK refuses one that is too old, and so does a Workflow', async (t) => {
  const manifest = join(project, 'node_modules', '@temporalio', 'common', 'package.json');
  const text = await readFile(manifest, 'utf8');
  t.after(() => writeFile(manifest, text));
  await writeFile(manifest, JSON.stringify({ ...JSON.parse(text), version: '1.17.5' }));
  const loading = (entry: string) => `try { require('${entry}'); } catch ({ message }) { console.log(message); }`;
  const { stdout } = await run(process.execPath, ['-e', ENTRIES.map(loading).join('\n')], { cwd: project });
  const refusal = /^temporal-semaphore needs Temporal's SDK 1\.18\.2 or later, and @temporalio\/common is 1\.17\.5\./gm;
  assert.equal(stdout.match(refusal)?.length, ENTRIES.length - 1, `all but temporal-semaphore/fencing: ${stdout}`);

  // By its file: here the package's name means the package of this repository.
  const workflowsPath = join(project, 'node_modules', 'temporal-semaphore', 'lib', 'workflows.js');
  const bundle = `require('@temporalio/worker').bundleWorkflowCode({ workflowsPath: ${JSON.stringify(workflowsPath)} })
    .then(({ code }) => { require('vm').runInNewContext(code + '\\n__TEMPORAL__.importWorkflows()', { __webpack_module_cache__: {}, AsyncLocalStorage: Map }); })
    .catch(({ message }) => console.log(message));`;
  const { stdout: bundled } = await run(process.execPath, ['-e', bundle], { cwd: project });
  assert.match(bundled, refusal);
});

test('the root entry, and an entry for Node in Workflow code, say what to import', async () => {
  for (const load of ["require('temporal-semaphore')", "import('temporal-semaphore')"]) {
    const loading = run(process.execPath, ['-e', load], { cwd: project });
    await assert.rejects(
      loading,
      /Import an entry of temporal-semaphore: temporal-semaphore\/workflow in Workflow code, /,
    );
  }
  for (const entry of ['', '/client', '/operator', '/worker', '/fencing', '/fencing-worker']) {
    const path = join(project, 'misplaced.ts');
    await writeFile(
      path,
      `import * as all from 'temporal-semaphore${entry}';\nexport const names = Object.keys(all);\n`,
    );
    const bundle = `require('@temporalio/worker').bundleWorkflowCode({ workflowsPath: ${JSON.stringify(path)} })`;
    const { stderr } = await run(process.execPath, ['-e', bundle], { cwd: project }).catch((error) => error);
    assert.match(stderr, /Can't resolve 'Workflow code imports temporal-semaphore\/workflow \(also /, entry);
    assert.match(stderr, / @ \.\/misplaced\.ts 1:/, entry);
  }
});

test('the installed command line says what it can do, and completes', async () => {
  const bin = join(project, 'node_modules', '.bin', 'temporal-semaphore');
  const { stdout: help } = await run(bin, ['--help'], { cwd: project });
  assert.match(help, /^Usage: temporal-semaphore /);
  const { stdout: version } = await run(bin, ['--version'], { cwd: project });
  assert.equal(version.trim(), packageVersion);
  const { stdout: completed } = await run(bin, ['complete', '--', 'da'], { cwd: project });
  assert.match(completed, /^dashboard\b/m);
});

test('where @temporalio/worker is not installed, worker names it before it calls the server', async (t) => {
  const [there, away] = ['worker', '.worker-away'].map((name) =>
    join(project, 'node_modules', '@temporalio', name),
  ) as [string, string];
  await rename(there, away);
  t.after(() => rename(away, there));
  const bin = join(project, 'node_modules', '.bin', 'temporal-semaphore');
  const { code, stderr } = await run(bin, ['worker', '--address', '127.0.0.1:1']).catch((error) => error);
  assert.match(
    stderr,
    /^temporal-semaphore: worker needs the package @temporalio\/worker, .* npm install @temporalio\/worker \(/,
  );
  assert.equal(code, 69);
});

test('the installed run keeps its guard: when the run is killed, its command ends, even if a preloaded module sends then', async () => {
  const worker = startInstalled('worker');
  const to = ['--capacity', '1', '--task-queue', 'permits'];
  const holder = startInstalled('run', 'guarded', ...to, '--', 'sh', '-c', 'echo $$; exec sleep 60');
  try {
    const [line] = await once(holder.stdout ?? assert.fail(), 'data');
    const pid = Number(line);
    assert.ok(pid > 0, `the command said ${line}`);
    // Of a guard that is late, the module's timer is due before the guard sees that the channel has closed.
    const guard = childOf(holder.pid, 'guard-process');
    process.kill(guard, 'SIGSTOP');
    holder.kill('SIGKILL');
    await delay(2 * TELL_EVERY_MS);
    process.kill(guard, 'SIGCONT');
    for (const until = Date.now() + 30_000; isAlive(pid); await delay(100)) {
      assert.ok(Date.now() < until, 'the command runs on without its permit');
    }
  } finally {
    holder.kill('SIGKILL');
    worker.kill('SIGKILL');
  }
});

/** In that project, one application for each kind of module. */
async function compileApps(): Promise<void> {
  for (const type of TYPES) {
    await cp(CONSUMER, join(project, type), { recursive: true });
    await writeFile(join(project, type, 'package.json'), JSON.stringify({ type }));
  }
  await compile('tsconfig.json', { compilerOptions: COMPILER_OPTIONS, include: TYPES, exclude: ['*/options.ts'] });
}

async function compile(file: string, config: object): Promise<void> {
  await writeFile(join(project, file), JSON.stringify(config));
  const failed = (error: { stdout: string }) => assert.fail(error.stdout);
  await run(process.execPath, [TSC, '-p', file], { cwd: project }).catch(failed);
}

test('an option may be undefined where a project has exactOptionalPropertyTypes', async () => {
  // The SDK's own declarations do not compile under it.
  const compilerOptions = { ...COMPILER_OPTIONS, exactOptionalPropertyTypes: true, skipLibCheck: true, noEmit: true };
  await compile('tsconfig.exact.json', { compilerOptions, files: ['commonjs/options.ts'] });
});

for (const [type, imports] of [
  ['commonjs', /require\("temporal-semaphore\/worker"\)/],
  ['module', /^import .* from 'temporal-semaphore\/worker';$/m],
] as const) {
  test(`installed from its tarball, it type-checks and takes permits in a project of type "${type}"`, async () => {
    const app = join(project, type);
    assert.match(await readFile(join(app, 'main.js'), 'utf8'), imports);

    const { stdout } = await run(process.execPath, ['main.js', env.address, type], { cwd: app });

    const files = (await readdir(join(project, 'node_modules', 'temporal-semaphore', 'lib'))).join();
    const [, bundledFor] = /permit-workflows\.sdk-([\d.]+)\.js/.exec(files) ?? assert.fail('no bundle in the package');
    assert.deepEqual(JSON.parse(stdout), {
      permitsTaken: [`permit:own-${type}:0`, `permit:apart-${type}:0`, `permit:outside-${type}:0`],
      // The application's own. The permit worker's came in the package, for the SDK that it was built with.
      bundlesMade: bundledFor === devDependencies['@temporalio/workflow'] ? 1 : 2,
    });
  });
}

test('a worker that esbuild has bundled, with the SDK outside, finds the Workflows of the installed package; else it says what to do', async (t) => {
  const app = `
    import { NativeConnection } from '@temporalio/worker';
    import { createPermitWorker, SemaphorePlugin } from 'temporal-semaphore/worker';
    (async () => {
      const { workflowInterceptorModules } = new SemaphorePlugin().configureBundler({ workflowsPath: 'x' });
      const connection = await NativeConnection.connect({ address: process.argv[2] });
      const worker = await createPermitWorker({ connection, taskQueue: 'bundled' });
      await worker.runUntil(async () => undefined);
      await connection.close();
      console.log(workflowInterceptorModules.join());
    })().catch((error) => { console.error(error.message); process.exit(1); });`;
  await writeFile(join(project, 'bundled.ts'), app);
  // What lies beside a bundle is the application's own.
  await writeFile(join(project, 'workflows.js'), 'throw new Error("not the library\'s");');
  const outfile = join(project, 'dist', 'app.js');
  const entryPoints = [join(project, 'bundled.ts')];
  await build({ entryPoints, outfile, bundle: true, platform: 'node', external: ['@temporalio/*'], logLevel: 'error' });
  const { stdout } = await run(process.execPath, [outfile, env.address]);
  assert.match(stdout, /node_modules\/temporal-semaphore\/lib\/fencing-workflow\.js\n$/);

  const alone = await mkdtemp(join(tmpdir(), 'temporal-semaphore-bundled-'));
  t.after(() => rm(alone, { recursive: true }));
  await mkdir(join(alone, 'node_modules'));
  await symlink(join(project, 'node_modules', '@temporalio'), join(alone, 'node_modules', '@temporalio'));
  await cp(outfile, join(alone, 'app.js'));
  const { stderr } = await run(process.execPath, [join(alone, 'app.js'), env.address]).catch((error) => error);
  assert.match(stderr, /^temporal-semaphore\/fencing-workflow can't be found from .*esbuild --packages=external/);
});

const TELL_EVERY_MS = 500;

/**
 * Tells its memory at once and repeatedly. Not in a thread of its worker, which has nobody to tell. A guard listens only some time after
 * the first message, as on a busy machine.
 */
const TELL_MEMORY = encodeURIComponent(
  `const tell = () => process.send?.(process.memoryUsage.rss());
  tell();
  setInterval(tell, ${TELL_EVERY_MS}).unref();
  if (process.argv[1]?.includes('guard-process')) await new Promise((resolve) => setTimeout(resolve, ${TELL_EVERY_MS}));`,
);

/** Starts a command as it was installed. It tells its memory by messages. */
function startInstalled(...args: string[]): ChildProcess {
  const bin = join(project, 'node_modules', '.bin', 'temporal-semaphore');
  const command = args.indexOf('--');
  const own = command < 0 ? args : args.slice(0, command);
  const rest = command < 0 ? [] : args.slice(command);
  return spawn(
    process.execPath,
    ['--import', `data:text/javascript,${TELL_MEMORY}`, bin, ...own, '--address', env.address, ...rest],
    {
      stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
    },
  );
}

test('the installed dashboard serves its page, and takes less than 120 MB for 10 resources', async (t) => {
  const resources = Array.from({ length: 10 }, (_, index) => `watched-${index}`);
  const worker = startInstalled('worker');
  const dashboard = startInstalled('dashboard', '--port', '0', ...resources.map((resource) => `${resource}=3`));
  t.after(() => [worker, dashboard].map((child) => child.kill('SIGKILL')));
  const [line] = await once(dashboard.stdout ?? assert.fail(), 'data');
  const url = String(line).trim();
  const html = await (await fetch(url)).text();
  for (const [, path = ''] of html.matchAll(/(?:src|href)="\/([^"]+)"/g)) {
    assert.equal((await fetch(url + path)).status, 200, path);
  }

  const pools = resources.map((name) => new SemaphoreClient(env.client, name, { capacity: 3, taskQueue: 'permits' }));
  const permits = await Promise.all(pools.flatMap((pool) => [pool.acquire(), pool.acquire()]));
  const closed = new AbortController();
  const events = (await fetch(`${url}events`, { signal: closed.signal })).body?.getReader() ?? assert.fail();
  const memory: number[] = [];
  dashboard.on('message', (bytes) => memory.push(Number(bytes) / 2 ** 20));
  let received = '';
  while (memory.length < 20 || !permits.every(({ runId }) => received.includes(runId))) {
    received += Buffer.from((await events.read()).value ?? []).toString();
  }
  closed.abort();
  await Promise.all(permits.map((permit) => permit.release()));
  const most = Math.max(...memory);
  t.diagnostic(`dashboard: ${most.toFixed(0)} MB at most`);
  assert.ok(most < 120, `${most} MB`); // the same build takes 95 to 101, as Node collects its garbage

  dashboard.kill('SIGTERM');
  const [code] = await once(dashboard, 'exit');
  assert.equal(code, 0);
});
