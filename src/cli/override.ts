import type { Command } from 'commander';
import type { Override, OverrideOptions, SemaphoreClient } from '../client';
import { checkPool, PoolByName } from '../client/operators';
import { type PoolFlags, timeFromNow, wholeNumber, withPoolFlags } from './arguments';
import { withClient } from './client';
import { confirmed } from './confirm';
import { overrideNote } from './draw-pool';
import { EXIT } from './exit-codes';
import { print, printJson } from './render';
import { type Text, text } from './text';

interface OverrideFlags extends PoolFlags, Pick<OverrideOptions, 'ifVersion' | 'reason'> {
  yes?: true;
}

/** The flags of every command that changes an override. */
function withOverrideFlags(command: Command): Command {
  command
    .option('--if-version <n>', 'act only on this version of the override; 0: only if there is none', wholeNumber)
    .option('-y, --yes', 'do not ask for confirmation');
  return withPoolFlags(command);
}

/** Asks the question, if there is one, acts, and shows the override that results. @returns the exit code */
async function override(
  resource: string,
  flags: OverrideFlags,
  question: Text | undefined,
  act: (pool: SemaphoreClient) => Promise<Override | undefined>,
): Promise<number> {
  checkPool(resource, flags);
  return await withClient(flags, async (client) => {
    const pool = await new PoolByName(client, resource, flags).open();
    if (question !== undefined && !(await confirmed(question, flags))) return EXIT.no;
    const now = await act(pool);
    const set = now && (now.paused || now.capacity !== undefined) ? now : undefined;
    const { output } = flags;
    if (output !== 'text') printJson(set ?? null, output);
    else if (set) print(text`${resource}: ${overrideNote(set)} (version ${set.version}).`);
    else print(text`${resource}: as it was deployed.`);
    return 0;
  });
}

const RESIZE_HELP = `
Example:
  temporal-semaphore resize gpu-pool 5 --capacity 3 --reason 'two more GPUs'
`;

export function addResize(program: Command, done: (exitCode: number) => void): void {
  const resize = program
    .command('resize <resource>')
    .argument('<n>', 'how many slots to use', wholeNumber)
    .summary('change how many slots are in use')
    .description(
      'Changes how many slots are in use, until the next change. Held slots stay held, and go out of use as they come free. The number that the pool is deployed with ends the override.',
    )
    .option('--reason <text>', 'shown to operators')
    .addHelpText('after', RESIZE_HELP)
    .action(async (resource: string, n: number, flags: OverrideFlags) => {
      const { ifVersion, reason } = flags;
      const question = text`Resize "${resource}" to ${n}?`;
      done(await override(resource, flags, question, (pool) => pool.resize(n, { ifVersion, reason })));
    });
  withOverrideFlags(resize);
}

const PAUSE_HELP = `
A pause with --until ends by itself. It shortens no other pause.

Examples:
  temporal-semaphore pause gpu-pool --capacity 3 --reason 'node drain'
  temporal-semaphore pause vendor-api --capacity 5 --until 90s --reason '429'
  temporal-semaphore pause gpu-pool --until 2027-01-31T18:00:00Z
`;

export function addPause(program: Command, done: (exitCode: number) => void): void {
  const pause = program
    .command('pause <resource>')
    .summary('give no more permits')
    .description('Takes all slots out of use as they come free, until resume. Waiters go on waiting.')
    .option('--until <time>', 'resume by itself at this time, or after this duration', timeFromNow)
    .option('--reason <text>', 'shown to operators')
    .addHelpText('after', PAUSE_HELP)
    .action(async (resource: string, flags: OverrideFlags & { until?: Date }) => {
      const { ifVersion, reason, until } = flags;
      const question = text`Pause "${resource}"${until ? text` until ${until.toISOString()}` : ''}?`;
      done(await override(resource, flags, question, (pool) => pool.pause({ until, ifVersion, reason })));
    });
  withOverrideFlags(pause);
}

const RESUME_HELP = `
resume asks for no confirmation, so --yes changes nothing.

Example:
  temporal-semaphore resume gpu-pool
`;

export function addResume(program: Command, done: (exitCode: number) => void): void {
  const resume = program
    .command('resume <resource>')
    .summary('end a pause')
    .description('Ends a pause. The size that resize has set stays.')
    .addHelpText('after', RESUME_HELP)
    .action(async (resource: string, flags: OverrideFlags) => {
      const { ifVersion } = flags;
      done(await override(resource, flags, undefined, (pool) => pool.resume({ ifVersion })));
    });
  withOverrideFlags(resume);
}
