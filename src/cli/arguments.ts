import type { StringValue } from '@temporalio/common';
import { type Command, InvalidArgumentError, Option } from 'commander';
import type { OperatorOptions } from '../operator';
import { isUnitless, msToNumber } from '../shared/duration';
import { DEFAULT_TASK_QUEUE } from '../shared/protocol';
import { type ConnectionFlags, withConnectionFlags } from './connection';

export function wholeNumber(text: string): number {
  if (!/^\d{1,15}$/.test(text)) throw new InvalidArgumentError('Expected a whole number.');
  return Number(text);
}

/** An option whose value is a duration, read as milliseconds. */
export function durationOption(flags: string, description: string, byDefault?: StringValue, leastMs = 0): Option {
  const option = new Option(flags, description).argParser((text) => {
    let ms = Number.NaN;
    try {
      if (!isUnitless(text)) ms = msToNumber(text as StringValue);
    } catch {
      // Refused below.
    }
    if (!(ms >= leastMs)) {
      throw new InvalidArgumentError(`Expected a duration of ${leastMs} ms or more with its unit, such as 5s or 2m.`);
    }
    return ms;
  });
  return byDefault === undefined ? option : option.default(msToNumber(byDefault), byDefault);
}

/** A time in the form of ISO 8601, the next `18:00` of the local clock, or a duration from now. */
export function timeFromNow(text: string): Date {
  const [, day] = /^(\d{4}-\d{2}-\d{2})T\d{2}:\d{2}/.exec(text) ?? [];
  const [, hours, minutes] = /^([01]\d|2[0-3]):([0-5]\d)$/.exec(text) ?? [];
  let ms = Number.NaN;
  try {
    if (hours !== undefined) ms = nextTime(Number(hours), Number(minutes));
    else if (day !== undefined) ms = isDay(day) ? Date.parse(text) : Number.NaN;
    else if (!isUnitless(text)) ms = Date.now() + msToNumber(text as StringValue);
  } catch {
    // Refused below.
  }
  if (!(ms > Date.now())) {
    throw new InvalidArgumentError(
      'Expected a time in the future, such as 2027-01-31T18:00:00Z or 18:00, or a duration, such as 90s.',
    );
  }
  return new Date(ms);
}

function nextTime(hours: number, minutes: number): number {
  const time = new Date();
  time.setHours(hours, minutes, 0, 0);
  if (time.getTime() <= Date.now()) time.setDate(time.getDate() + 1);
  return time.getTime();
}

/** `Date` takes 30 February for 2 March. */
function isDay(day: string): boolean {
  const date = new Date(day);
  return !Number.isNaN(date.getTime()) && date.toISOString().startsWith(day);
}

/** How many permits there are, or their names. */
export function withSlotFlags(command: Command, capacity: string, slots: string): Command {
  return command
    .addOption(new Option('--capacity <n>', capacity).argParser(wholeNumber).conflicts('slots'))
    .option('--slots <names>', slots, (names: string) => names.split(','));
}

/** Another resource, with its slots. */
export interface AlsoFlag {
  resource: string;
  capacity?: number;
  slots?: string[];
}

/** Adds one more `<resource>=<slots>` to those before it. */
export function alsoFlag(text: string, before: AlsoFlag[] = []): AlsoFlag[] {
  const at = text.lastIndexOf('=');
  const [resource, slots] = [text.slice(0, at), text.slice(at + 1)];
  if (at < 1 || slots === '') {
    throw new InvalidArgumentError('Expected a resource and its slots, such as licences=5 or gpus=a,b.');
  }
  const isCount = /^\d+$/.test(slots);
  return [...before, { resource, ...(isCount ? { capacity: wholeNumber(slots) } : { slots: slots.split(',') }) }];
}

/** The form of a command's output. */
export type Output = 'text' | 'json' | 'jsonl';

/** Named as in Temporal's own command. */
export function withOutputFlags(command: Command): Command {
  return command
    .addOption(
      new Option('-o, --output <format>', 'text, one JSON document, or JSON Lines')
        .choices(['text', 'json', 'jsonl'])
        .default('text'),
    )
    .addOption(new Option('--json', 'the same as -o json').implies({ output: 'json' }));
}

/** The resource, as far as the flags describe it, and the form of the output. */
export interface ResourceFlags extends OperatorOptions, ConnectionFlags {
  output: Output;
}

/** For operator commands: the task queue on which they start the queue of a resource. */
export function withTaskQueueFlag(command: Command): Command {
  return command.option(
    '--task-queue <name>',
    `the permit worker's task queue (default: the one that the resource already uses, or else "${DEFAULT_TASK_QUEUE}")`,
  );
}

/** The flags of every command that looks at one resource, or acts on it. */
export function withResourceFlags(command: Command): Command {
  withSlotFlags(
    command,
    "the capacity that the callers' code declares (default: what the resource's queue or permits report)",
    'the names of the slots, separated by commas, instead of --capacity',
  );
  command
    .option(
      '--key <key>',
      'the tenant or customer (key) whose permits to show or change, instead of the whole resource',
    )
    .option(
      '--per-key <n>',
      "with --key: the limit for each key, as the callers' code declares it (default: same as --capacity)",
      wholeNumber,
    );
  return withConnectionFlags(withOutputFlags(withTaskQueueFlag(command)));
}

/**
 * Everything after `--` belongs to the command that `run` executes: nothing reads flags there. A resource whose name begins with
 * `-` stands between two `--`.
 */
export function splitCommand(argv: string[]): { own: string[]; command?: string[] } {
  const [, , name] = argv;
  const at = argv.indexOf('--');
  if (name !== 'run' || at < 0) return { own: argv };
  const from = argv[at + 1]?.startsWith('-') && argv[at + 2] === '--' ? at + 2 : at;
  return { own: argv.slice(0, from), command: argv.slice(from + 1) };
}
