#!/usr/bin/env node
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Command, CommanderError } from 'commander';
import { NotHeldError, StaleOverrideError } from '../client/errors';
import { InvalidOptionsError } from '../shared/refuse';
import { splitCommand } from './arguments';
import { addCompletion } from './completion';
import { Interrupted } from './confirm';
import { addDashboard } from './dashboard';
import { addDoctor } from './doctor';
import { EXIT, signalCode } from './exit-codes';
import { addLs } from './ls';
import { addPause } from './pause';
import { say } from './render';
import { addResize } from './resize';
import { addResume } from './resume';
import { addRevoke } from './revoke';
import { addRun } from './run';
import { addServer } from './server';
import { addWatch } from './watch';
import { addWhy } from './why';
import { addWorker } from './worker';

type AddCommand = (program: Command, done: (exitCode: number) => void, command?: string[]) => void | Promise<void>;

const COMMANDS: AddCommand[] = [
  addRun,
  addWorker,
  addServer,
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

async function main(argv: string[]): Promise<number> {
  let exitCode = 0;
  const done = (code: number) => {
    exitCode = code;
  };
  const program = new Command('temporal-semaphore')
    .description('A distributed counting semaphore whose only infrastructure is a Temporal server.')
    .version(version())
    .exitOverride();
  const { own, command } = splitCommand(argv);
  for (const add of COMMANDS) await add(program, done, command);
  try {
    await program.parseAsync(own);
  } catch (error) {
    return explain(error);
  }
  return exitCode;
}

/** Of this package: from `src` and from `lib` alike. */
function version(): string {
  return JSON.parse(readFileSync(join(__dirname, '..', '..', 'package.json'), 'utf8')).version;
}

/** Says what went wrong, by messages only: what errors hold besides may be secret. @returns the exit code */
function explain(error: unknown): number {
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : EXIT.usage; // it has said so itself
  if (error instanceof Interrupted) return signalCode(error.signal);
  const messages: string[] = [];
  for (let cause = error; cause instanceof Error; cause = cause.cause) messages.push(cause.message);
  say(messages.join(': ') || String(error));
  if (error instanceof InvalidOptionsError) return EXIT.usage;
  if (error instanceof NotHeldError) return EXIT.absent;
  return error instanceof StaleOverrideError ? EXIT.busy : EXIT.unavailable;
}

// In our own form; of what Node warns of besides, as Node does.
process.removeAllListeners('warning');
process.on('warning', ({ name, message }) => say(name === 'Warning' ? message : `${name}: ${message}`));

// Whoever read our output has gone, as `head` does: end as other programs do, which the signal ends.
process.stdout.on('error', () => process.exit(signalCode('SIGPIPE')));
// What can't be said any more is no reason to give up a permit.
process.stderr.on('error', () => undefined);

// The SDK may still hold a connection or wait for an answer that nobody needs.
void main(process.argv).then((code) => process.exit(code));
