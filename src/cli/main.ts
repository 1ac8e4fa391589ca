#!/usr/bin/env node
import { CommanderError } from 'commander';
import { InvalidOptionsError, NotHeldError, StaleOverrideError } from '../client';
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

/** Says what went wrong, by messages only: what errors hold besides may be secret. @returns the exit code */
function explain(error: unknown): number {
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : EXIT.usage; // it has said so itself
  if (error instanceof Interrupted) return signalCode(error.signal);
  say(messageOf(error));
  if (error instanceof InvalidOptionsError) return EXIT.usage;
  if (error instanceof NotHeldError) return EXIT.absent;
  return error instanceof StaleOverrideError ? EXIT.busy : EXIT.unavailable;
}

// In our own form; of what Node warns of besides, as Node does.
process.removeAllListeners('warning');
process.on('warning', ({ name, message }) => say(name === 'Warning' ? message : `${name}: ${message}`));

// The reader of our output has gone, as `head` does. End as other programs do: by the signal.
process.stdout.on('error', () => process.exit(signalCode('SIGPIPE')));
// A message that can't be written is no reason to give up a permit.
process.stderr.on('error', () => undefined);

// The SDK may still hold a connection or wait for an answer that nobody needs.
void main(process.argv).then((code) => process.exit(code));
