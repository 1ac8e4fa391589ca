import { execFile, spawn } from 'node:child_process';
import { createHash, randomUUID } from 'node:crypto';
import { access, mkdir, mkdtemp, readFile, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { before } from 'node:test';
import { promisify } from 'node:util';
import { CACHE } from '../../scripts/support/find-server';
import type { ReportedHold } from '../../scripts/support/holder-intervals';
import { lacking, needed } from '../../scripts/support/requirements';
import { endWithTests } from './children';
import type { Temporal } from './temporal';

const EXAMPLES = join(__dirname, '..', '..', 'examples');
const PYTHON = join(EXAMPLES, 'python');
const GO = join(EXAMPLES, 'go');
const BUILDS = join(CACHE, 'interop');

export type Language = 'Python' | 'Go';

/** Those whose tools are here; in CI all. */
export const LANGUAGES = (['Python', 'Go'] as const).filter((language) => !lacking(language));

/** What the `PermitHolder` Workflows of both examples are started with. */
export interface ForeignHolderInput {
  pool: { resource: string; capacity: number; task_queue: string; lease_ms: number };
  hold_ms: number;
}

/** The examples in other languages, running against the test's server. */
export interface OtherLanguages {
  /** The task queues on which `PermitHolder` runs. */
  readonly taskQueues: Readonly<Record<Language, string>>;
  /** Runs the Python client to its end, and gives the hold that it told. Only where Python is among {@link LANGUAGES}. */
  pythonClient(input: ForeignHolderInput): Promise<ReportedHold>;
}

/** Call it at the top of a `describe` in a file that calls `useTemporal`. Prepares the languages of {@link LANGUAGES}. */
export function useOtherLanguages(temporal: Temporal): OtherLanguages {
  const taskQueues = { Python: `python-${randomUUID()}`, Go: `go-${randomUUID()}` };
  let python: string;
  const environment = () => ({ ...process.env, TEMPORAL_ADDRESS: temporal.env.address, TEMPORAL_NAMESPACE: 'default' });

  const startWorker = (command: string, args: string[]) => {
    endWithTests(spawn(command, args, { env: environment(), stdio: ['ignore', 'ignore', 'inherit'] }));
  };

  const start: Record<Language, () => Promise<void>> = {
    async Python() {
      python = await preparePython();
      startWorker(python, [join(PYTHON, 'worker.py'), taskQueues.Python]);
    },
    async Go() {
      startWorker(await buildGo(), [taskQueues.Go]);
    },
  };

  before(async () => {
    await Promise.all(LANGUAGES.map((language) => start[language]()));
  });

  return {
    taskQueues,
    async pythonClient({ pool, hold_ms }) {
      const { resource, capacity, task_queue, lease_ms } = pool;
      const args = [resource, capacity, task_queue, hold_ms, lease_ms].map(String);
      const { stdout } = await promisify(execFile)(python, [join(PYTHON, 'client.py'), ...args], {
        env: environment(),
      });
      return JSON.parse(stdout) as ReportedHold;
    },
  };
}

/** Makes the virtual environment once for each set of requirements. @returns its interpreter */
async function preparePython(): Promise<string> {
  const requirements = join(PYTHON, 'requirements.txt');
  const version = await run('python3', ['-c', 'import sys; print(sys.version)']).catch(helped(needed('Python')));
  const key = createHash('sha256')
    .update(version)
    .update(await readFile(requirements));
  const directory = join(BUILDS, `venv-${key.digest('hex').slice(0, 12)}`);
  const interpreter = join(directory, 'bin', 'python');
  if (!(await exists(directory))) {
    progress('Making a Python environment for the example (about 10 seconds, once) …');
    await mkdir(BUILDS, { recursive: true });
    const made = await mkdtemp(`${directory}-`);
    await run('python3', ['-m', 'venv', made]).catch(helped(needed('Python')));
    const pip = ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', '--requirement', requirements];
    await run(join(made, 'bin', 'python'), pip).catch(
      helped('Its packages come from PyPI, or from what pip is configured to use.'),
    );
    // Whole or not at all. Where another run was first, its environment is as good.
    await rename(made, directory).catch(() => rm(made, { recursive: true }));
  }
  return interpreter;
}

/** @returns the executable of the Go worker */
async function buildGo(): Promise<string> {
  const executable = join(BUILDS, 'go-permit-holder');
  progress('Building the Go example (about a minute the first time) …');
  await mkdir(BUILDS, { recursive: true });
  await run('go', ['build', '-buildvcs=false', '-o', executable, '.'], GO).catch(helped(needed('Go')));
  return executable;
}

/** @returns what it wrote to standard output */
async function run(command: string, args: string[], cwd?: string): Promise<string> {
  const { stdout } = await promisify(execFile)(command, args, { cwd });
  return stdout;
}

function helped(help: string): (error: Error & { stderr?: string }) => never {
  return (error) => {
    const told = error.stderr?.trim() || error.message;
    throw new Error(`${help}\n${told.slice(-2_000)}`);
  };
}

async function exists(path: string): Promise<boolean> {
  return await access(path).then(
    () => true,
    () => false,
  );
}

function progress(line: string): void {
  console.error(line);
}
