import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { isAddress } from './find-server';

const GO_EXAMPLE = join(__dirname, '..', '..', 'examples', 'go');
const PYTHON_CHECK = 'import sys, venv, ensurepip; assert sys.version_info >= (3, 11)';

/** What some tests need that `pnpm install` does not bring. Without it they are left out. */
const NEEDS = {
  Python: {
    tests: 'tests of holders in Python',
    missing: () => !runs('python3', '-c', PYTHON_CHECK),
    what: 'Python 3.11 or later with venv, as python3: https://www.python.org/downloads, or on Debian and Ubuntu: apt-get install -y python3-venv',
  },
  Go: {
    tests: 'tests of holders in Go',
    missing: () => !isGoOf(1, 24),
    what: 'Go 1.24 or later, as go: https://go.dev/dl',
  },
  terminal: {
    tests: 'tests of the command line on a terminal',
    missing: () => !runs('script', '-qefc', 'true', '/dev/null'),
    what: "util-linux' script, on Debian and Ubuntu: apt-get install -y bsdutils",
  },
  ownServer: {
    tests: 'tests that start, configure, load or kill a Temporal server',
    missing: () => isAddress(process.env.TEMPORAL_SEMAPHORE_SERVER ?? ''),
    what: 'to start a Temporal server, and TEMPORAL_SEMAPHORE_SERVER names one that runs already: let it name the temporal executable',
  },
} as const satisfies Record<string, { tests: string; missing: () => boolean; what: string }>;

export type Need = keyof typeof NEEDS;

/**
 * Why a test that needs these is left out, for its `skip` option; `false` where nothing is missing. In CI nothing is left
 * out: there such a test fails.
 */
export function lacking(...needs: Need[]): string | false {
  if (process.env.CI) return false;
  const missing = needs.filter((need) => NEEDS[need].missing());
  return missing.length > 0 && missing.map(needed).join('; and ');
}

/** For the message of a test that fails without it. */
export function needed(need: Need): string {
  return `This needs ${NEEDS[need].what}`;
}

/** Which tests are left out on this machine, and why: a line for each need that tests have. */
export function leftOut(isNeeded: (need: Need) => boolean): string[] {
  return Object.entries(NEEDS)
    .filter(([name, need]) => isNeeded(name as Need) && need.missing())
    .map(([, { tests, what }]) => `the ${tests}, which need ${what}`);
}

/** Where the example is: there a Go that is older fetches the one it needs, if it can. */
function isGoOf(major: number, minor: number): boolean {
  const { stdout } = spawnSync('go', ['env', 'GOVERSION'], { cwd: GO_EXAMPLE, encoding: 'utf8' });
  const [, foundMajor, foundMinor] = /^go(\d+)\.(\d+)/.exec(stdout ?? '') ?? [];
  return Number(foundMajor) > major || (Number(foundMajor) === major && Number(foundMinor) >= minor);
}

function runs(command: string, ...args: string[]): boolean {
  return spawnSync(command, args, { stdio: 'ignore' }).status === 0;
}
