import type { Command } from 'commander';
import { InvalidOptionsError, NotHeldError, type Operator, type Override, type OverrideOptions } from '../operator';
import { type ResourceFlags, timeFromNow, wholeNumber, withResourceFlags } from './arguments';
import { withOperator } from './connection';
import { overrideNote } from './draw-resource';
import { EXIT } from './exit-codes';
import { confirmed, holderName, print, printJson } from './terminal';
import { type Text, text } from './text';
import { sinceNow } from './wording';

interface OverrideFlags extends ResourceFlags, Pick<OverrideOptions, 'ifVersion' | 'reason'> {
  yes?: true;
}

/** The flags of every command that changes an override. */
function withOverrideFlags(command: Command): Command {
  command
    .option(
      '--if-version <n>',
      'act only if nobody has changed it since: the version that ls -o json shows; 0: only if nothing is set',
      wholeNumber,
    )
    .option('-y, --yes', 'do not ask for confirmation');
  return withResourceFlags(command);
}

/** Asks the question, if there is one, acts, and shows the override that results. @returns the exit code */
async function override(
  resource: string,
  flags: OverrideFlags,
  question: Text | undefined,
  act: (operator: Operator) => Promise<Override | undefined>,
): Promise<number> {
  return await withOperator(resource, flags, async (operator) => {
    if ((await operator.deployedSlots(true)) === undefined) {
      throw new InvalidOptionsError(
        `Neither a queue nor a permit of "${resource}" says how many slots it has: give --capacity or --slots.`,
      );
    }
    if (question !== undefined && !(await confirmed(question, flags))) return EXIT.no;
    const now = await act(operator);
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
    .command('resize')
    .argument('<resource>', 'whose slots they are')
    .argument('<n>', 'how many slots to use', wholeNumber)
    .summary('change how many slots are in use')
    .description(
      'Changes how many slots are in use, until the next change. Held slots stay held, and go out of use as they come free. To undo it, resize to the number that the resource is deployed with.',
    )
    .option('--reason <text>', 'shown to operators')
    .addHelpText('after', RESIZE_HELP)
    .action(async (resource: string, n: number, flags: OverrideFlags) => {
      const { ifVersion, reason } = flags;
      const question = text`Resize "${resource}" to ${n}?`;
      done(await override(resource, flags, question, (operator) => operator.resize(n, { ifVersion, reason })));
    });
  withOverrideFlags(resize);
}

const PAUSE_HELP = `
A pause with --until ends by itself. If the resource is paused already, the
pause that ends later counts.

Examples:
  temporal-semaphore pause gpu-pool --capacity 3 --reason 'node drain'
  temporal-semaphore pause vendor-api --capacity 5 --until 90s --reason '429'
  temporal-semaphore pause gpu-pool --until 2027-01-31T18:00:00Z
`;

export function addPause(program: Command, done: (exitCode: number) => void): void {
  const pause = program
    .command('pause <resource>')
    .summary('give no more permits')
    .description(
      'Gives no more permits, until resume. Holders keep theirs until they release them, and waiters go on waiting.',
    )
    .option('--until <time>', 'resume by itself at this time, or after this duration', timeFromNow)
    .option('--reason <text>', 'shown to operators')
    .addHelpText('after', PAUSE_HELP)
    .action(async (resource: string, flags: OverrideFlags & { until?: Date }) => {
      const { ifVersion, reason, until } = flags;
      const question = text`Pause "${resource}"${until ? text` until ${until.toISOString()}` : ''}?`;
      done(await override(resource, flags, question, (operator) => operator.pause({ until, ifVersion, reason })));
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
      done(await override(resource, flags, undefined, (operator) => operator.resume({ ifVersion })));
    });
  withOverrideFlags(resume);
}

interface RevokeFlags extends ResourceFlags {
  reason?: string;
  runId?: string;
  yes?: true;
}

const REVOKE_HELP = `
Example:
  temporal-semaphore revoke gpu-pool 0 --reason 'node drain'
`;

export function addRevoke(program: Command, done: (exitCode: number) => void): void {
  const revoke = program
    .command('revoke <resource> <slot>')
    .summary('take a permit away')
    .description(
      'Takes the permit of a slot away. The holder learns that at once, with the reason. The slot goes to the next waiter.',
    )
    .option('--reason <text>', 'shown to the holder')
    .option('--run-id <id>', 'only if this run holds the slot')
    .option('-y, --yes', 'do not ask for confirmation')
    .addHelpText('after', REVOKE_HELP)
    .action(async (resource: string, slot: string, flags: RevokeFlags) => {
      done(await take(resource, slot, flags));
    });
  withResourceFlags(revoke);
}

/** @returns the exit code */
async function take(resource: string, slot: string, flags: RevokeFlags): Promise<number> {
  return await withOperator(resource, { ...flags, capacity: undefined, slots: [slot] }, async (operator) => {
    const { slots } = await operator.inspect({ recent: 0 });
    const held = slots.find((it) => it.slot === slot)?.permit;
    if (!held || (flags.runId !== undefined && held.runId !== flags.runId)) {
      throw new NotHeldError({ resource, slot }, flags.runId);
    }
    const purpose = held.purpose ? text`, ${held.purpose}` : '';
    const who = text`${holderName(held.holder)} (for ${sinceNow(held.since)}${purpose})`;
    const what = text`slot "${slot}" of "${resource}" from ${who}`;
    if (!(await confirmed(text`Take ${what}?`, flags))) return EXIT.no;
    // It names the run: another run may hold the slot by the time the operator answers.
    const permit = await operator.revoke(slot, { runId: held.runId, reason: flags.reason });
    if (flags.output === 'text') print(text`Took ${what}.`);
    else printJson(permit, flags.output);
    return 0;
  });
}
