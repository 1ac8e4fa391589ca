import { execFile, spawn } from 'node:child_process';
import { createHash, randomUUID } from 'node:crypto';
import { access, mkdir, readFile, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { before } from 'node:test';
import { promisify } from 'node:util';
import type { ReportedHold } from '../../scripts/support/holder-intervals';
import { endWithTests } from './children';
import type { Temporal } from './temporal';

const EXAMPLES = join(__dirname, '..', '..', 'examples');
const PYTHON = join(EXAMPLES, 'python');
const GO = join(EXAMPLES, 'go');
const CACHE = join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'temporal-semaphore', 'interop');

const PYTHON_HELP =
  'This test needs Python 3.11 or later with venv, as `python3`: https://www.python.org/downloads, or on Debian and Ubuntu `apt install python3-venv`.';
const GO_HELP = 'This test needs Go 1.24 or later, as `go`: https://go.dev/dl.';

/** What the `PermitHolder` Workflows of both examples are started with. */
export interface ForeignHolderInput {
  pool: { resource: string; capacity: number; task_queue: string; lease_ms: number };
  hold_ms: number;
}

/** The examples in other languages, running against the test's server. */
export interface OtherLanguages {
  /** The task queues on which `PermitHolder` runs. */
  readonly taskQueues: { readonly Python: string; readonly Go: string };
  /** Runs the Python client to its end, and gives the hold that it told. */
  pythonClient(input: ForeignHolderInput): Promise<ReportedHold>;
}

/** Call it at the top of a `describe` in a file that calls `useTemporal`. Fails where Python or Go is missing, and says how to get it. */
export function useOtherLanguages(temporal: Temporal): OtherLanguages {
  const taskQueues = { Python: `python-${randomUUID()}`, Go: `go-${randomUUID()}` };
  let python: string;
  const environment = () => ({ ...process.env, TEMPORAL_ADDRESS: temporal.env.address, TEMPORAL_NAMESPACE: 'default' });

  const startWorker = (command: string, args: string[]) => {
    endWithTests(spawn(command, args, { env: environment(), stdio: ['ignore', 'ignore', 'inherit'] }));
  };

  before(async () => {
    const [interpreter, goWorker] = await Promise.all([preparePython(), buildGo()]);
    python = interpreter;
    startWorker(python, [join(PYTHON, 'worker.py'), taskQueues.Python]);
    startWorker(goWorker, [taskQueues.Go]);
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
  const version = await run('python3', [
    '-c',
    'import sys; assert sys.version_info >= (3, 11); print(sys.version)',
  ]).catch(helped(PYTHON_HELP));
  const key = createHash('sha256')
    .update(version)
    .update(await readFile(requirements));
  const directory = join(CACHE, `python-${key.digest('hex').slice(0, 12)}`);
  const interpreter = join(directory, 'bin', 'python');
  const complete = join(directory, 'complete');
  if (!(await exists(complete))) {
    progress('Making a Python environment for the example (about 10 seconds, once) …');
    await mkdir(CACHE, { recursive: true });
    await run('python3', ['-m', 'venv', '--clear', directory]).catch(helped(PYTHON_HELP));
    const pip = ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', '--requirement', requirements];
    await run(interpreter, pip).catch(helped('Its packages come from PyPI, or from what pip is configured to use.'));
    await writeFile(complete, '');
  }
  return interpreter;
}

/** @returns the executable of the Go worker */
async function buildGo(): Promise<string> {
  const executable = join(CACHE, 'go-permit-holder');
  progress('Building the Go example (about a minute the first time) …');
  await mkdir(CACHE, { recursive: true });
  await run('go', ['build', '-buildvcs=false', '-o', executable, '.'], GO).catch(helped(GO_HELP));
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
