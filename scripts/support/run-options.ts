import type { StringValue } from '@temporalio/common';
import { Command, InvalidArgumentError, Option } from 'commander';
import { msToNumber } from '../../src/shared/duration';
import { isAddress } from './find-server';

/** The Web UI's port lies this far above the server's, as with `temporal server start-dev`. */
export const UI_OFFSET = 1_000;

interface ServeOptions {
  port: number;
  /** Keeps the server's state in this file. @default in memory */
  db?: string;
}

/** What a run of the example consumers is: how many want how many permits for how long. */
export interface RunOptions {
  consumers: number;
  capacity: number;
  holdMs: number;
}

export interface DemoOptions extends RunOptions {
  /** A running server to use instead of an embedded one. */
  address?: string;
  /** With the live page, until Ctrl-C. */
  dashboard?: true;
}

const MAX_CONSUMERS = 200;
const MAX_CAPACITY = 100;
/** Half of what the example's activity may take. */
const MAX_HOLD_MS = 5 * 60_000;
const MAX_PORT = 65_535 - UI_OFFSET;

/** @throws CommanderError when something is wrong with `argv`, after one line about it on standard error */
export function parseDemoOptions(argv: string[]): DemoOptions {
  const command = runCommand('demo', 'Runs consumers on a semaphore, with a Temporal server and a worker of its own.');
  command.option('--address <host:port>', 'use this running server instead of an embedded one', parseAddress);
  command.option('--dashboard', 'serve the live page too, until Ctrl-C');
  const { hold, ...options } = parse<ParsedRun & Pick<DemoOptions, 'address' | 'dashboard'>>(command, argv);
  return { ...options, holdMs: hold };
}

/** As {@link parseDemoOptions}. */
export function parseStartOptions(argv: string[]): RunOptions {
  const command = runCommand('start', 'Runs consumers on a semaphore, on a server and a worker that run already.');
  const { hold, ...options } = parse<ParsedRun>(command, argv);
  return { ...options, holdMs: hold };
}

/** As {@link parseDemoOptions}. */
export function parseServeOptions(argv: string[]): ServeOptions {
  const command = baseCommand('dev-server', 'Runs a Temporal server for development, with its Web UI, until Ctrl-C.')
    .option('--port <n>', `the server's port; the Web UI's is ${UI_OFFSET} higher`, wholeNumber(MAX_PORT), 7233)
    .option('--db <file>', 'keep the state in this file, so that it outlives the server');
  return parse<ServeOptions>(command, argv);
}

/** As {@link parseDemoOptions}. */
export function parseClusterOptions(argv: string[]): { port: number } {
  const command = baseCommand('cluster', 'Runs two Temporal server processes on a PostgreSQL, until Ctrl-C.').option(
    '--port <n>',
    'the port before both',
    wholeNumber(MAX_PORT),
    7233,
  );
  return parse<{ port: number }>(command, argv);
}

/** As {@link parseDemoOptions}. */
export function parseWorkerOptions(argv: string[]): void {
  parse(baseCommand('worker', 'Runs the example consumers, and the permits they take, until Ctrl-C.'), argv);
}

type ParsedRun = Omit<RunOptions, 'holdMs'> & { hold: number };

function runCommand(name: string, description: string): Command {
  return baseCommand(name, description)
    .option('--consumers <n>', 'how many consumers want a permit', wholeNumber(MAX_CONSUMERS), 8)
    .option('--capacity <n>', 'how many permits there are', wholeNumber(MAX_CAPACITY), 3)
    .addOption(
      new Option('--hold <duration>', 'how long each holds its permit').default(2_000, '2s').argParser(parseHold),
    );
}

function baseCommand(name: string, description: string): Command {
  return new Command(`pnpm ${name}`).description(description).exitOverride().helpOption('-h, --help', 'show this');
}

/** `pnpm demo -- --hold 1s` hands on the `--`, which npm users are used to write. */
function parse<Options extends object>(command: Command, argv: string[]): Options {
  return command.parse(argv[0] === '--' ? argv.slice(1) : argv, { from: 'user' }).opts<Options>();
}

function wholeNumber(most: number): (text: string) => number {
  return (text) => {
    const value = /^\d+$/.test(text) ? Number(text) : 0;
    if (value < 1 || value > most) throw new InvalidArgumentError(`Expected a whole number from 1 to ${most}.`);
    return value;
  };
}

function parseHold(text: string): number {
  let ms = 0;
  try {
    ms = Math.ceil(msToNumber(text as StringValue));
  } catch {
    // Refused below, like a duration out of bounds.
  }
  if (!(ms >= 1 && ms <= MAX_HOLD_MS)) {
    throw new InvalidArgumentError('Expected a duration from 1ms to 5m, such as 500ms or 2s.');
  }
  return ms;
}

function parseAddress(text: string): string {
  if (!isAddress(text)) throw new InvalidArgumentError('Expected host:port.');
  return text;
}
