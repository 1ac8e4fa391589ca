import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { startCluster } from './support/cluster';
import { diesWithUs } from './support/dies-with-us';
import { aborted, messageOf, runMain } from './support/main';

/** The newest of each minor version that the module proxy has and Go 1.26.8 builds. It has no 1.26 and no 1.28. */
const SERVERS = ['v1.25.1', 'v1.27.3', 'v1.29.1', 'v1.30.8', 'v1.31.4', 'v1.32.1'];

/** Holds, waits, hand-offs, order, adoption, operators and run IDs: what rests on the server's behaviour. */
const TESTS = [
  'test/permit-slot',
  'test/contract',
  'test/semaphore',
  'test/client.test',
  'test/wait-queue',
  'test/adoption',
  'test/offers',
  'test/operate',
  'test/standalone-activities',
];

/**
 * `pnpm versions [tag…]` runs the tests that rest on the server's behaviour against clusters of several server versions, one
 * after the other, and prints a table. `TESTS=path,path` chooses other test files.
 */
async function main(interrupt: AbortSignal): Promise<number> {
  const versions = process.argv.length > 2 ? process.argv.slice(2) : SERVERS;
  const tests = process.env.TESTS?.split(',') ?? TESTS;
  const rows: string[] = [];
  let allPassed = true;
  for (const version of versions) {
    const tried = await Promise.race([against(version, tests), aborted(interrupt)]);
    allPassed &&= tried.passed;
    rows.push(`| ${version} | ${tried.what} |`);
  }
  console.log(`\n${tests.join(', ')}:\n`);
  for (const row of ['| server | tests |', '| --- | --- |', ...rows]) console.log(row);
  return allPassed ? 0 : 1;
}

async function against(version: string, tests: readonly string[]): Promise<{ passed: boolean; what: string }> {
  try {
    const cluster = await startCluster({ version, progress: (line) => console.error(`${version}: ${line}`) });
    try {
      return await runTests(cluster.address, tests);
    } finally {
      await cluster.stop();
    }
  } catch (error) {
    return { passed: false, what: `did not start: ${messageOf(error).split('\n')[0]}` };
  }
}

async function runTests(address: string, tests: readonly string[]): Promise<{ passed: boolean; what: string }> {
  const runner = spawn(process.execPath, ['--import', 'tsx', join(__dirname, 'test.ts'), ...tests], {
    env: { ...process.env, TEMPORAL_SEMAPHORE_SERVER: address },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  diesWithUs(runner, 'SIGTERM');
  let output = '';
  runner.stdout.setEncoding('utf8').on('data', (text: string) => {
    output += text;
    process.stdout.write(text);
  });
  const [code] = await once(runner, 'close');
  const count = (what: string) => Number(new RegExp(`^ℹ ${what} (\\d+)$`, 'm').exec(output)?.[1] ?? 0);
  const failed = [...new Set([...output.matchAll(/^✖ (.+) \([\d.]+ms\)$/gm)].map(([, name]) => name))];
  const what = [`${count('pass')} passed`, `${count('fail')} failed`, `${count('skipped')} left out`];
  if (failed.length > 0) what.push(`failed: ${failed.join('; ')}`);
  return { passed: code === 0 && count('pass') > 0, what: what.join(', ') };
}

runMain(main);
