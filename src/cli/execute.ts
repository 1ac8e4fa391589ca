import { CommanderError } from 'commander';
import { InvalidOptionsError, NotHeldError, SelfDeadlockError, StaleOverrideError } from '../client';
import { messageOf } from '../client/operators';
import { splitCommand } from './arguments';
import { Interrupted } from './confirm';
import { EXIT, signalCode } from './exit-codes';
import { makeProgram } from './program';
import { say } from './render';

/** Runs one command. @returns its exit code */
export async function execute(argv: string[]): Promise<number> {
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
