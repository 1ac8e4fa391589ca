#!/usr/bin/env node
import { CommanderError } from 'commander';
import { InvalidOptionsError, NotHeldError, SelfDeadlockError, StaleOverrideError } from '../client';
import { messageOf } from '../client/operators';
import { splitCommand } from './arguments';
import { Interrupted } from './confirm';
import { EXIT, signalCode } from './exit-codes';
import { makeProgram } from './program';
import { say } from './render';

async function main(argv: string[]): Promise<number> {
  let exitCode = 0;
  const done = (code: number) => {
    exitCode = code;
  };
  const { own, command } = splitCommand(argv);
  try {
    await (await makeProgram(done, command)).parseAsync(own);
  } catch (error) {
    return explain(error);
  }
  return exitCode;
}

/** Prints what went wrong, from messages alone: an error's other fields may hold secrets. @returns the exit code */
function explain(error: unknown): number {
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : EXIT.usage; // commander has printed it
  if (error instanceof Interrupted) return signalCode(error.signal);
  say(messageOf(error));
  if (error instanceof InvalidOptionsError || error instanceof SelfDeadlockError) return EXIT.usage;
  if (error instanceof NotHeldError) return EXIT.absent;
  return error instanceof StaleOverrideError ? EXIT.busy : EXIT.unavailable;
}

// Our warnings appear in our own form. Others keep the name that Node gives them.
process.removeAllListeners('warning');
process.on('warning', ({ name, message }) => say(name === 'Warning' ? message : `${name}: ${message}`));

// The reader of our output has gone, as `head` does. Exit as other programs do: with the signal's code.
process.stdout.on('error', () => process.exit(signalCode('SIGPIPE')));
// A message that can't be written is no reason to give up a permit.
process.stderr.on('error', () => undefined);

// Exit at once: the SDK may still hold a connection or wait for an answer that nobody needs.
void main(process.argv).then((code) => process.exit(code));
