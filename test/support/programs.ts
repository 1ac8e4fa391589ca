import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { cp, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { after, before } from 'node:test';
import { startServer, type TemporalServer } from '../../scripts/support/temporal-server';
import { installPackage } from './installed-package';
import { ROOT } from './pages';

const PACKAGES = [
  '@temporalio/activity',
  '@temporalio/client',
  '@temporalio/common',
  '@temporalio/worker',
  '@temporalio/workflow',
  'tsx',
] as const;

/** A program as its reader runs it: the packed package and the files of an example in an empty folder, with its worker, on a server of its own. */
export interface Program {
  readonly env: TemporalServer;
  /** Its folder. */
  readonly project: string;
  /** What its worker has printed, in that order. */
  readonly lines: readonly string[];
  /** For its other processes. */
  inProject(): { cwd: string; env: NodeJS.ProcessEnv };
  stopWorker(): Promise<void>;
}

interface ProgramOptions {
  /** Packages beside those that each program needs. */
  more?: readonly ['@temporalio/testing'];
  /** Changes the files before the worker starts. */
  prepare?(project: string): Promise<void>;
}

/** Call it at the top of a test file. @param example a folder of `examples` */
export function useProgram(example: string, { more = [] as never, prepare }: ProgramOptions = {}): Program {
  let env: TemporalServer;
  let project: string;
  let worker: ChildProcess;
  const lines: string[] = [];
  const inProject = () => ({ cwd: project, env: { ...process.env, TEMPORAL_ADDRESS: env.address } });

  before(async () => {
    project = await mkdtemp(join(tmpdir(), `temporal-semaphore-${example}-`));
    const installing = installPackage(project, [...PACKAGES, ...more]);
    installing.catch(() => undefined); // awaited below, when the server can be stopped
    env = await startServer();
    await installing;
    await cp(join(ROOT, 'examples', example), project, { recursive: true });
    await prepare?.(project);
    worker = spawn(process.execPath, ['--import', 'tsx', 'worker.ts'], {
      ...inProject(),
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    createInterface({ input: worker.stdout ?? assert.fail() }).on('line', (line) => lines.push(line));
  });

  async function stopWorker(): Promise<void> {
    if (worker?.exitCode !== null) return;
    worker.kill('SIGTERM');
    await once(worker, 'exit');
  }

  after(async () => {
    await stopWorker();
    await env?.teardown();
    if (project) await rm(project, { recursive: true });
  });

  return {
    get env() {
      return env;
    },
    get project() {
      return project;
    },
    lines,
    inProject,
    stopWorker,
  };
}
