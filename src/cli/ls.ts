import type { Command } from 'commander';
import { checkPool, PoolByName, poolsInUse, type SeenPool } from '../client/operators';
import { type PoolFlags, wholeNumber, withPoolFlags } from './arguments';
import { withClient } from './client';
import { drawPool, overrideNote } from './draw-pool';
import { EXIT } from './exit-codes';
import { print, printJson, say } from './render';
import { type Align, red, Text, table, text, yellow } from './text';
import { disagreementLine, sinceNow, strangersLine } from './wording';

interface LsFlags extends PoolFlags {
  recent: number;
  wide?: boolean;
}

const HELP = `
Exit code ${EXIT.no}: nobody holds or waits for a permit of that resource, and no override is set for it.

Examples:
  temporal-semaphore ls
  temporal-semaphore ls gpu-pool --recent 5 --wide
  temporal-semaphore ls gpu-pool -o json
`;

export function addLs(program: Command, done: (exitCode: number) => void): void {
  const ls = program
    .command('ls [resource]')
    .summary('show who holds and who waits')
    .description('Shows who holds and who waits for permits of <resource>, or all resources in use.')
    .option('--recent <n>', 'also show the last n holds that have ended, at most 100', wholeNumber, 0)
    .option('--wide', 'also show the run IDs')
    .addHelpText('after', HELP)
    .action(async (resource: string | undefined, flags: LsFlags) => {
      done(await (resource === undefined ? all(flags) : one(resource, flags)));
    });
  withPoolFlags(ls);
}

/** @returns the exit code */
async function one(resource: string, flags: LsFlags): Promise<number> {
  checkPool(resource, flags);
  const pool = await withClient(flags, (client) =>
    new PoolByName(client, resource, flags).inspect({ recent: flags.recent, search: true }),
  );
  const { output, wide } = flags;
  if (output !== 'text') printJson(pool, output);
  if (isUnknown(pool)) {
    say(text`nobody holds or waits for a permit of "${resource}". If it is a pool, --capacity shows its free slots.`);
    return EXIT.no;
  }
  if (output === 'text') print(drawPool(pool, { wide }));
  return 0;
}

/** Nothing of this name runs or ran lately, and nobody knows how many slots it has. */
function isUnknown({ capacity, slots, queue, recent }: SeenPool): boolean {
  return capacity === undefined && slots.length === 0 && queue === 'none' && recent.length === 0;
}

/** @returns the exit code */
async function all({ output, taskQueue, ...connection }: LsFlags): Promise<number> {
  const pools = await withClient(connection, (client) => poolsInUse(client, { taskQueue }));
  if (output !== 'text') printJson(pools, output);
  else if (pools.length === 0) print(text`Nobody holds or waits for a permit.`);
  else print(Text.lines([table(HEAD, pools.map(row), ALIGN), ...pools.flatMap(notes)]));
  return 0;
}

function notes({ resource, disagreement, strangers }: SeenPool): Text[] {
  return [
    ...(disagreement ? [yellow(text`${resource}: ${disagreementLine(disagreement)}`)] : []),
    ...(strangers ? [red(text`${resource}: ${strangersLine(strangers)}`)] : []),
  ];
}

const HEAD = ['resource', 'held', 'of', 'waiting', 'longest', 'keys', 'set'];
const ALIGN: Align[] = ['left', 'right', 'right', 'right', 'right', 'left', 'left'];

function row({ resource, capacity, slots, waiters, queue, override, keys, problem }: SeenPool): unknown[] {
  if (problem !== undefined) return [resource, '?', '?', '?', '', '', problem];
  const first = waiters.map(({ since }) => since).sort((a, b) => a.getTime() - b.getTime())[0];
  return [
    resource,
    slots.filter(({ state }) => state === 'held').length,
    capacity ?? '?',
    queue === 'silent' ? '?' : waiters.length,
    first ? sinceNow(first) : '',
    keys ? text`${keys.held} hold, ${keys.queued} with a queue` : '',
    override ? overrideNote(override) : '',
  ];
}
