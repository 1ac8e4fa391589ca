import { startCluster } from './support/cluster';
import { aborted, messageOf, runMain } from './support/main';
import { againstSdk, SDK_TESTS, SDKS } from './support/sdk-versions';
import { runTests, type TestRun } from './support/test-run';

/** The newest of each minor version that Go 1.26.8 builds from the module proxy, which has no 1.26 and no 1.28. */
const SERVERS = ['v1.25.1', 'v1.27.3', 'v1.29.1', 'v1.30.8', 'v1.31.2', 'v1.32.1'];

/** Holds, waits, hand-offs, order, adoption, operators, run IDs and Workflow Pause: what rests on the server's behaviour. */
const TESTS = [
  'test/workflows/permit/permit-slot',
  'test/contract',
  'test/workflows/holder/semaphore',
  'test/client/client.test',
  'test/workflows/queue/wait-queue',
  'test/workflows/holder/adoption',
  'test/workflows/queue/offers',
  'test/operator/operate',
  'test/worker/standalone-activities',
  'test/workflows/permit/workflow-pause',
];

/** What differs from run to run, what to run on each by default, and how. */
interface Matrix {
  readonly versions: readonly string[];
  readonly tests: readonly string[];
  readonly what: string;
  against(version: string, tests: readonly string[]): Promise<TestRun>;
}

const ON_SERVERS: Matrix = { versions: SERVERS, tests: TESTS, what: 'server', against };
const ON_SDKS: Matrix = {
  versions: SDKS,
  tests: SDK_TESTS,
  what: `SDK on Node ${process.versions.node}`,
  against: againstSdk,
};

/**
 * `pnpm versions [tag…]` runs the tests that rest on the server's behaviour against clusters of several server versions, one
 * after the other, and prints a table. `pnpm versions --sdk [version…]` does the same for versions of the TypeScript SDK, and the
 * tests that rest on it. `TESTS=path,path` chooses other test files; `TESTS=` takes all.
 */
async function main(interrupt: AbortSignal): Promise<number> {
  const [first, ...rest] = process.argv.slice(2);
  const matrix = first === '--sdk' ? ON_SDKS : ON_SERVERS;
  const chosen = first === '--sdk' ? rest : process.argv.slice(2);
  const tests = process.env.TESTS?.split(',') ?? matrix.tests;
  const rows: string[] = [];
  let allPassed = true;
  for (const version of chosen.length > 0 ? chosen : matrix.versions) {
    const tried = await Promise.race([matrix.against(version, tests), aborted(interrupt)]);
    allPassed &&= tried.passed;
    rows.push(`| ${version} | ${tried.what} |`);
  }
  console.log(`\n${tests.join(', ') || 'all tests'}:\n`);
  for (const row of [`| ${matrix.what} | tests |`, '| --- | --- |', ...rows]) console.log(row);
  return allPassed ? 0 : 1;
}

async function against(version: string, tests: readonly string[]): Promise<TestRun> {
  try {
    const cluster = await startCluster({ version, progress: (line) => console.error(`${version}: ${line}`) });
    try {
      return await runTests(tests, { env: { TEMPORAL_SEMAPHORE_SERVER: cluster.address } });
    } finally {
      await cluster.stop();
    }
  } catch (error) {
    return { passed: false, what: `did not start: ${messageOf(error).split('\n')[0]}` };
  }
}

runMain(main);
