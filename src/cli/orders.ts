import type { Command } from 'commander';
import { messageOf } from '../client/server/errors';
import { mapConcurrently } from '../client/server/map-concurrently';
import {
  ForeignWorkflowError,
  InvalidOptionsError,
  NotHeldError,
  Operator,
  type Override,
  type OverrideOptions,
} from '../operator';
import { isSet } from '../operator/inspector';
import { keysInUse, type SeenKey } from '../operator/resources-in-use';
import { type Slots, slotNames } from '../shared/slots';
import { versionInForce } from '../shared/version-in-force';
import { type ResourceFlags, timeFromNow, wholeNumber, withResourceFlags } from './arguments';
import { EVERY_KEY, withClient, withOperator } from './connection';
import { aboveNotes } from './draw-plan';
import { overrideNote } from './draw-resource';
import { EXIT } from './exit-codes';
import { confirmed, holderName, print, printJson, say } from './terminal';
import { red, Text, text } from './text';
import { count, fromNow, pauseNote, sinceNow, untilNote } from './wording';

interface OverrideFlags extends ResourceFlags, Pick<OverrideOptions, 'ifVersion' | 'reason'> {
  yes?: true;
}

/** The flags of every command that changes an override. */
function withOverrideFlags(command: Command): Command {
  command
    .option(
      '--if-version <n>',
      'change the limit only if the override in force (what resize or pause has set) still has version n, as in ls -o json (0: only if there is no override)',
      wholeNumber,
    )
    .option('-y, --yes', 'do not ask for confirmation');
  return withResourceFlags(command);
}

/** An operator command that changes an override. */
interface Order {
  flags: OverrideFlags;
  /** What to ask before, of a resource or of several keys. */
  question?: (what: Text) => Text;
  act: (operator: Operator) => Promise<Override | undefined>;
  /** Whether it changes what a limits file may have set before, and what else an operator can do then. */
  instead?: (before: Override) => string | undefined;
}

/** Asks the question, if there is one, acts, and shows the override that results. @returns the exit code */
async function override(resource: string, order: Order): Promise<number> {
  const { flags, question, act, instead } = order;
  if (flags.key === EVERY_KEY) return await overrideKeys(resource, order);
  return await withOperator(resource, flags, async (operator) => {
    const name = operator.resource;
    const { slots, override: before } = await operator.findSlots(true);
    if (slots === undefined) {
      await operator.refuseIfPaused();
      throw new InvalidOptionsError(
        `Neither a queue nor a permit of "${name}" says how many slots it has: give ${flags.key === undefined ? '--capacity or --slots' : '--per-key'}.`,
      );
    }
    if (question && !(await confirmed(question(text`"${name}"`), flags))) return EXIT.no;
    const set = whatIsSet(await act(operator));
    const { output } = flags;
    if (output !== 'text') printJson(set ?? null, output);
    else {
      const now = set
        ? text`${name}: ${overrideNote(set)} (version ${set.version}).`
        : text`${name}: as it was deployed, with ${count(slotNames(slots).length, 'slot')}.`;
      print(Text.lines([now, ...(await surplus(operator, slots, before, set)), ...fileNotes(before, instead)]));
    }
    return 0;
  });
}

/** Those who still hold slots that a smaller capacity has taken out of use. A pause takes all out of use, as its holders know. */
async function surplus(operator: Operator, slots: Slots, before?: Override, set?: Override): Promise<Text[]> {
  if (set?.capacity === undefined || set.paused) return [];
  const names = typeof slots === 'number' ? slotNames(Math.max(slots, before?.capacity ?? 0)) : slots;
  return aboveNotes(await operator.heldIn(names.slice(set.capacity)));
}

/** Warns that a worker sets again what a limits file had set. */
function fileNotes(before: Override | undefined, instead: Order['instead'] = () => undefined): Text[] {
  const fileVersion = versionInForce(before);
  const or = before && instead(before);
  if (fileVersion === undefined || or === undefined) return [];
  return [
    text`A limits file (version ${fileVersion}) had set this: if a worker keeps the file, it sets this again within a minute. Change the file and raise its version${or}.`,
  ];
}

function whatIsSet(now: Override | undefined): Override | undefined {
  return now && isSet(now) ? now : undefined;
}

/** The result of the command for one key. */
interface KeyChange {
  resource: string;
  before: { capacity?: number; override: Override | null };
  /** Absent if the key may not have changed … */
  after?: { capacity?: number; override: Override | null };
  /** … and why. */
  problem?: string;
}

/** The same for all keys of the resource that are in use: many at a time, and each by itself. @returns the exit code */
async function overrideKeys(resource: string, { flags, question, act }: Order): Promise<number> {
  const { ifVersion, perKey, capacity, slots, taskQueue, output } = flags;
  if ([ifVersion, perKey, capacity, slots].some((flag) => flag !== undefined)) {
    throw new InvalidOptionsError(
      `--key '${EVERY_KEY}' can't be combined with --if-version, --per-key, --capacity or --slots: each key has its own.`,
    );
  }
  return await withClient(
    flags,
    async (client) => {
      const keys = await keysInUse(client, resource, { taskQueue });
      if (keys.length === 0) {
        say(text`no key of "${resource}" has a holder, a waiter or an override.`);
        return EXIT.no;
      }
      if (question && !(await confirmed(question(text`${count(keys.length, 'key')} of "${resource}"`), flags)))
        return EXIT.no;
      const changes = await mapConcurrently(keys, async (key) => await changeKey(key, act));
      if (output === 'text') print(Text.lines([...changes.map(changeLine), LATER_KEYS]));
      else printJson(changes, output);
      const failed = changes.filter(({ problem }) => problem !== undefined).length;
      if (failed === 0) return 0;
      say(
        text`${failed} of ${count(changes.length, 'key')} of "${resource}" may not have changed. You can run the command again.`,
      );
      return EXIT.unavailable;
    },
    (client) => void new Operator(client, resource, { key: EVERY_KEY, taskQueue }),
  );
}

const LATER_KEYS = 'Keys that come into use later have the limit that their callers declare (perKey).';

async function changeKey({ operator, seen }: SeenKey, act: Order['act']): Promise<KeyChange> {
  const { resource, capacity, override = null } = seen;
  const before = { capacity, override };
  try {
    if (seen.problem !== undefined) throw new Error(seen.problem);
    const now = whatIsSet(await act(operator)) ?? null;
    const declared = now?.capacity ?? (await operator.findSlots()).slots;
    const after = { capacity: typeof declared === 'number' ? declared : undefined, override: now };
    return { resource, before, after };
  } catch (error) {
    if (error instanceof InvalidOptionsError && capacity !== undefined) throw error; // the order itself is wrong, for each key
    return { resource, before, problem: messageOf(error) };
  }
}

/** `openai~key:acme: 2 -> 3` */
function changeLine({ resource, before, after, problem }: KeyChange): Text {
  if (!after) return text`${resource}: ${red('failed')}, ${limitNote(before)} before: ${problem}`;
  return text`${resource}: ${limitNote(before)} -> ${limitNote(after)}`;
}

function limitNote({ capacity = '?', override }: { capacity?: number | string; override: Override | null }): Text {
  if (override?.paused) return text`${pauseNote(override)}`;
  return override ? text`${capacity}` : text`${capacity}, as declared`;
}

const RESIZE_HELP = `
Examples:
  temporal-semaphore resize gpu-pool 5 --capacity 3 --reason 'two more GPUs'
  temporal-semaphore resize gpu-pool 1 --until 18:00 --reason 'a demo'
  temporal-semaphore resize openai 5 --key acme --reason 'a bigger plan'
  temporal-semaphore resize openai 3 --key '*'

--key '*' changes each key that has a holder, a waiter or an override now. Keys
that come into use later have the limit that their callers declare (perKey).
`;

export function addResize(program: Command, done: (exitCode: number) => void): void {
  const resize = program
    .command('resize')
    .argument('<resource>', 'the resource')
    .argument('<n>', 'how many slots to use', wholeNumber)
    .summary('change how many slots a resource has')
    .description(
      "Changes how many slots the resource has, until the next change. If there are fewer slots than before, holders keep surplus slots until they release them. To undo the change, resize to the number of slots that the callers' code declares.",
    )
    .option('--until <time>', 'go back to the current setting at this time, or after this duration', timeFromNow)
    .option('--reason <text>', 'shown to operators')
    .addHelpText('after', RESIZE_HELP)
    .action(async (resource: string, n: number, flags: OverrideFlags & { until?: Date }) => {
      const { ifVersion, reason, until } = flags;
      const question = (what: Text) => text`Resize ${what} to ${n}${untilNote(until)}?`;
      done(
        await override(resource, {
          flags,
          question,
          act: (operator) => operator.resize(n, { until, ifVersion, reason }),
          instead: () => (until ? undefined : ', or use resize --until'),
        }),
      );
    });
  withOverrideFlags(resize);
}

const PAUSE_HELP = `
A pause with --until ends automatically. If the resource is paused already, the
pause that ends later takes effect.

Examples:
  temporal-semaphore pause gpu-pool --capacity 3 --reason 'node drain'
  temporal-semaphore pause vendor-api --capacity 5 --until 90s --reason '429'
  temporal-semaphore pause gpu-pool --until 2027-01-31T18:00:00Z
`;

export function addPause(program: Command, done: (exitCode: number) => void): void {
  const pause = program
    .command('pause <resource>')
    .summary('stop giving permits')
    .description(
      'Stops giving permits until the resource is resumed. Holders keep their permits until they release them, and waiters keep waiting.',
    )
    .option('--until <time>', 'resume automatically at this time, or after this duration', timeFromNow)
    .option('--reason <text>', 'shown to operators')
    .addHelpText('after', PAUSE_HELP)
    .action(async (resource: string, flags: OverrideFlags & { until?: Date }) => {
      const { ifVersion, reason, until } = flags;
      const question = (what: Text) => text`Pause ${what}${untilNote(until)}?`;
      done(
        await override(resource, { flags, question, act: (operator) => operator.pause({ until, ifVersion, reason }) }),
      );
    });
  withOverrideFlags(pause);
}

const RESUME_HELP = `
resume never asks for confirmation, so --yes has no effect.

Example:
  temporal-semaphore resume gpu-pool
`;

export function addResume(program: Command, done: (exitCode: number) => void): void {
  const resume = program
    .command('resume <resource>')
    .summary('end a pause')
    .description('Ends a pause. A size that was set with resize stays in force.')
    .addHelpText('after', RESUME_HELP)
    .action(async (resource: string, flags: OverrideFlags) => {
      const { ifVersion } = flags;
      done(
        await override(resource, {
          flags,
          act: (operator) => operator.resume({ ifVersion }),
          instead: ({ paused }) => (paused ? ', with `paused: false` in it' : undefined),
        }),
      );
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
      'Takes the permit of <slot> away from its holder. The holder is sent a notice with the reason at once, and the slot goes to the next waiter. The work may go on for a while: an activity learns of the loss at its next heartbeat.',
    )
    .option('--reason <text>', 'shown to the holder')
    .option('--run-id <id>', 'revoke only if the permit still has this run ID (see ls --wide)')
    .option('-y, --yes', 'do not ask for confirmation')
    .addHelpText('after', REVOKE_HELP)
    .action(async (resource: string, slot: string, flags: RevokeFlags) => {
      done(await take(resource, slot, flags));
    });
  withResourceFlags(revoke);
}

const STILL_WORKS =
  "Until the holder is notified, its work goes on, although the slot is free. To free a slot only after the work has stopped, cancel the holder's Workflow, or stop its process (run, a service), instead.";

/** @returns the exit code */
async function take(of: string, slot: string, flags: RevokeFlags): Promise<number> {
  const only = flags.key === undefined ? [slot] : undefined; // the slots of a key have no names
  return await withOperator(of, { ...flags, capacity: undefined, slots: only }, async (operator) => {
    const { resource } = operator;
    operator.addSlot(slot);
    const { slots, strangers } = await operator.inspect({ recent: 0 });
    const held = slots.find((it) => it.slot === slot)?.permit;
    const stranger = strangers?.find(({ workflowId }) => workflowId === held?.workflowId);
    if (stranger) throw new ForeignWorkflowError(stranger);
    if (!held || (flags.runId !== undefined && held.runId !== flags.runId)) {
      throw new NotHeldError({ resource, slot }, flags.runId);
    }
    const purpose = held.purpose ? text`, ${held.purpose}` : '';
    const who = text`${holderName(held.holder)} (for ${sinceNow(held.since)}${purpose})`;
    const { pacedUntil } = held; // then its holder is done
    const pace = pacedUntil && text`the pace of slot "${slot}" of "${resource}", ${fromNow(pacedUntil)} early`;
    const what = text`slot "${slot}" of "${resource}" from ${who}`;
    const question = pace
      ? text`End ${pace}? The next hold then comes sooner than the pace allows.`
      : text`Take ${what}?`;
    if (!(await confirmed(question, flags))) return EXIT.no;
    // It names the run: another run may hold the slot by the time the operator answers.
    const permit = await operator.revoke(slot, { runId: held.runId, reason: flags.reason });
    if (flags.output !== 'text') printJson(permit, flags.output);
    else if (pace) print(text`Ended ${pace}: the next hold comes sooner than the pace allows.`);
    else print(Text.lines([text`Took ${what}.`, STILL_WORKS]));
    return 0;
  });
}
