import { Command, InvalidArgumentError, Option } from 'commander';
import { isAddress } from '../../../scripts/support/find-server';

export interface ChaosOptions {
  minutes: number;
  seed: string;
  /** A running server to use. @default a dev server of its own, which is killed and restarted */
  address?: string;
  /** Two server processes on a PostgreSQL of our own, of which each part is killed and restarted. */
  cluster?: boolean;
  /** A commit. Half of the permit workers and of the clients' processes run its build. */
  beside?: string;
  /** The directory of a kept run, which is judged anew. */
  again?: string;
  /** Files to write the report to. */
  json?: string;
  report?: string;
  /** Of the pool that operators steer. */
  capacity: number;
  /** How long from one fault to the next, on average, in milliseconds. */
  every: number;
  /** X of L2, in milliseconds. */
  idleLimit: number;
  /** How long after healing all must be served, in milliseconds. */
  servedWithin: number;
  /** Kinds of faults. */
  only?: string[];
  without?: string[];
}

/** @throws CommanderError when something is wrong with `argv`, after one line about it on standard error */
export function parseChaosOptions(argv: string[]): ChaosOptions {
  const command = new Command('pnpm chaos')
    .description(
      'Breaks everything around a semaphore, and checks what it promises. Exit code 1: a promise was broken.',
    )
    .exitOverride()
    .helpOption('-h, --help', 'show this')
    .option('--minutes <n>', 'how long faults come', number(0.1, 24 * 60), 1)
    .option('--seed <text>', 'repeats the plan of faults, though not how the processes interleave with it', newSeed())
    .option('--address <host:port>', 'use this running server, which is then not killed', address)
    .addOption(new Option('--cluster', 'on a cluster of its own, whose nodes and database fail').conflicts('address'))
    .option('--beside <commit>', 'half of the permit workers and clients run the build of that commit')
    .option('--again <directory>', 'break nothing: judge a kept run by today’s checks')
    .option('--json <file>', 'write the report there as JSON')
    .option('--report <file>', 'write the report there as Markdown')
    .option('--capacity <n>', 'permits of the pool that operators steer', number(1, 100), 3)
    .option('--every <ms>', 'from one fault to the next, on average', number(100, 3_600_000), 1_800)
    .option('--idle-limit <ms>', 'how long a slot may be free with a live waiter', number(1_000, 3_600_000), 45_000)
    .option('--served-within <ms>', 'after healing', number(1_000, 3_600_000), 240_000)
    .option('--only <kinds>', 'these faults only, separated by commas', list)
    .addOption(
      new Option('--without <kinds>', 'all faults but these, separated by commas').argParser(list).conflicts('only'),
    );
  return command.parse(argv[0] === '--' ? argv.slice(1) : argv, { from: 'user' }).opts<ChaosOptions>();
}

function newSeed(): string {
  return Math.floor(Math.random() * 2 ** 32).toString(36);
}

function number(least: number, most: number): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (!(value >= least && value <= most))
      throw new InvalidArgumentError(`Expected a number from ${least} to ${most}.`);
    return value;
  };
}

function list(text: string): string[] {
  return text.split(',');
}

function address(text: string): string {
  if (!isAddress(text)) throw new InvalidArgumentError('Expected host:port.');
  return text;
}
