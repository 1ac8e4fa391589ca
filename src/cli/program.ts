import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Command } from 'commander';
import { addCompletion } from './completion';
import { addDashboard } from './dashboard';
import { addDoctor } from './doctor';
import { addLs } from './ls';
import { addPause, addResize, addResume } from './override';
import { addRevoke } from './revoke';
import { addRun } from './run';
import { addWatch } from './watch';
import { addWhy } from './why';
import { addWorker } from './worker';

type AddCommand = (program: Command, done: (exitCode: number) => void, command?: string[]) => void | Promise<void>;

const COMMANDS: AddCommand[] = [
  addRun,
  addWorker,
  addLs,
  addWatch,
  addWhy,
  addDashboard,
  addRevoke,
  addResize,
  addPause,
  addResume,
  addDoctor,
  addCompletion,
];

/**
 * All commands with their flags.
 * @param done receives the exit code of the command that ran
 * @param command the words that `run` executes
 */
export async function makeProgram(done: (exitCode: number) => void, command?: string[]): Promise<Command> {
  const program = new Command('temporal-semaphore')
    .description('A distributed counting semaphore whose only infrastructure is a Temporal server.')
    .version(version())
    .exitOverride();
  for (const add of COMMANDS) await add(program, done, command);
  return program;
}

/** This package's version, read from `src` and from `lib` alike. */
function version(): string {
  return JSON.parse(readFileSync(join(__dirname, '..', '..', 'package.json'), 'utf8')).version;
}
