import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { devDependencies } from '../../package.json';
import { OLDEST_SDK } from '../../src/shared/oldest-sdk';
import { messageOf } from './main';
import { packPackage } from './pack-package';
import { PACKED_PACKAGE } from './prepared';
import { copyFiles } from './project-copy';
import { runTests, type TestRun } from './test-run';

/** The oldest that package.json allows, one between, and the one that all else runs on. */
export const SDKS: readonly string[] = [OLDEST_SDK, '1.21.1', devDependencies['@temporalio/workflow']];

/** What the library takes of the SDK, its internals among that, in Workflows, clients, workers, activities and the command line. */
export const SDK_TESTS: readonly string[] = [
  'src/shared/duration',
  'test/unit/sdk-internals',
  'test/workflows/holder/adoption',
  'test/cli/cli.test',
  'test/client/client.test',
  'test/contract',
  'test/fencing/fencing-activity',
  'test/workflows/queue/hostile-turns',
  'test/worker/limit-activities',
  'test/worker/limits-keeper',
  'test/workflows/holder/limited-workflows',
  'test/client/pool/permit-pool',
  'test/worker/permit-worker',
  'test/workflows/holder/permit-set',
  'test/workflows/permit/permit-slot',
  'test/workflows/holder/semaphore',
];

/**
 * Runs the tests in a copy of the project that has this version of each package of the SDK; with {@link SDK_TESTS}, those of the package as npm
 * installs it, too.
 */
export async function againstSdk(version: string, tests: readonly string[]): Promise<TestRun> {
  // Not inside the project, whose own SDK would serve where one is missing.
  const project = await mkdtemp(join(tmpdir(), `temporal-semaphore-sdk-${version}-`));
  try {
    await copyFiles(project);
    await install(project, version);
    // What is shipped is built with this project's own SDK.
    const env = { [PACKED_PACKAGE]: await packPackage(project) };
    const tested = await runTests(tests, { project, env });
    if (tests !== SDK_TESTS) return tested;
    const packed = await runTests(['--slow', 'test/package/package'], { project, env });
    return { passed: tested.passed && packed.passed, what: `${tested.what}; of the package: ${packed.what}` };
  } catch (error) {
    return { passed: false, what: `can't be installed: ${messageOf(error).split('\n')[0]}` };
  } finally {
    await rm(project, { recursive: true, force: true });
  }
}

async function install(project: string, version: string): Promise<void> {
  const file = join(project, 'package.json');
  const manifest: { devDependencies: Record<string, string> } = JSON.parse(await readFile(file, 'utf8'));
  for (const name of Object.keys(manifest.devDependencies)) {
    // The command line has this one bundled, so it need not be the user's version. Some versions of it were never published.
    if (name.startsWith('@temporalio/') && name !== '@temporalio/envconfig') manifest.devDependencies[name] = version;
  }
  await writeFile(file, JSON.stringify(manifest, undefined, 2));
  const args = ['-y', 'pnpm@10', 'install', '--no-frozen-lockfile', '--prefer-offline'];
  await promisify(execFile)('npx', args, { cwd: project });
}
