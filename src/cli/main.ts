#!/usr/bin/env node
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Command, CommanderError } from 'commander';
import { NotHeldError, StaleOverrideError } from '../client/errors';
import { InvalidOptionsError } from '../shared/refuse';
import { addDoctor } from './doctor';
import { EXIT } from './exit-codes';
import { addLs } from './ls';
import { addPause } from './pause';
import { plainLines } from './render';
import { addResize } from './resize';
import { addResume } from './resume';
import { addRevoke } from './revoke';
import { addRun } from './run';
import { addServer } from './server';
import { addWatch } from './watch';
import { addWhy } from './why';
import { addWorker } from './worker';

const COMMANDS = [
  addRun,
  addWorker,
  addServer,
  addLs,
  addWatch,
  addWhy,
  addRevoke,
  addResize,
  addPause,
  addResume,
  addDoctor,
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
  for (const add of COMMANDS) add(program, done);
  try {
    await program.parseAsync(argv);
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
  const messages: string[] = [];
  for (let cause = error; cause instanceof Error; cause = cause.cause) messages.push(cause.message);
  console.error(`temporal-semaphore: ${plainLines(messages.join(': ') || String(error))}`);
  if (error instanceof InvalidOptionsError) return EXIT.usage;
  if (error instanceof NotHeldError) return EXIT.absent;
  return error instanceof StaleOverrideError ? EXIT.busy : EXIT.unavailable;
}

// The SDK may still hold a connection or wait for an answer that nobody needs.
void main(process.argv).then((code) => process.exit(code));
