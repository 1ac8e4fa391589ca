import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Command, CommanderError } from 'commander';
import { InvalidOptionsError, SelfDeadlockError } from '../client';
import { messageOf } from '../client/server/errors';
import { NotHeldError, StaleOverrideError } from '../operator';
import { splitCommand } from './arguments';
import { addDashboard } from './dashboard';
import { addDoctor } from './doctor';
import { EXIT, signalCode } from './exit-codes';
import { addApply, addExport, addPlan } from './limits';
import { addLs } from './ls';
import { addPause, addResize, addResume, addRevoke } from './orders';
import { addRun } from './run';
import { Interrupted, say } from './terminal';
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
  addPlan,
  addApply,
  addExport,
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
    .description(
      'Limits how many Workflows, services and scripts use a resource at once: a distributed semaphore on Temporal.',
    )
    .version(version())
    .addHelpText('after', START)
    .exitOverride();
  for (const add of COMMANDS) await add(program, done, command);
  for (const command of program.commands) refuseByName(command);
  return program;
}

/** The error names the command that lacks the option. It suggests no similar option, which often belongs to another command. */
function refuseByName(command: Command): void {
  const outputError = (message: string, write: (text: string) => void) =>
    write(message.replace('error: unknown option', `error: ${command.name()} has no option`));
  command.showSuggestionAfterError(false).configureOutput({ outputError });
}

const START = `
Start with:
  temporal-semaphore worker                       # runs permits; start it first
  temporal-semaphore run nightly --capacity 1 -- ./backup.sh
  temporal-semaphore ls                           # who holds, who waits
`;

/** This package's version, read from `src` and from `lib` alike. */
function version(): string {
  return JSON.parse(readFileSync(join(__dirname, '..', '..', 'package.json'), 'utf8')).version;
}

const HELP = `
Example:
  source <(temporal-semaphore completion bash)  # in ~/.bashrc
  source <(temporal-semaphore completion zsh)   # in ~/.zshrc
  temporal-semaphore completion fish > \\
    ~/.config/fish/completions/temporal-semaphore.fish
`;

/** Completes commands, flags and their choices, as commander knows them. The shell runs this program, with `complete`, at each TAB. */
async function addCompletion(program: Command): Promise<void> {
  const { default: tab } = await import('@bomb.sh/tab/commander');
  tab(program, { completionCommandName: 'completion' });
  const completion = program.commands.find((command) => command.name() === 'completion');
  completion?.description('Prints a script that completes commands and flags with TAB in your shell.');
  completion?.summary('print a script for shell completion').addHelpText('after', HELP);
}

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
