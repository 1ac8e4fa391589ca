import type { Command } from 'commander';
import { wholeNumber } from './arguments';
import { withClient } from './client';
import { table } from './paint';
import { checkPool, type PoolFlags, PoolView, type SeenPool, withPoolFlags } from './pool';
import { drawPool, overrideNote } from './pool-view';
import { plain, print, printJson, sinceNow } from './render';
import { poolsInUse } from './resources';

interface LsFlags extends PoolFlags {
  recent: number;
}

export function addLs(program: Command, done: (exitCode: number) => void): void {
  const ls = program
    .command('ls [resource]')
    .summary('show who holds and who waits')
    .description('Shows who holds and who waits for permits of <resource>, or all resources in use.')
    .option('--recent <n>', 'with the last n holds that have ended, at most 100', wholeNumber, 0)
    .action(async (resource: string | undefined, flags: LsFlags) => {
      await (resource === undefined ? all(flags) : one(resource, flags));
      done(0);
    });
  withPoolFlags(ls);
}

async function one(resource: string, flags: LsFlags): Promise<void> {
  checkPool(resource, flags);
  const pool = await withClient(flags, (client) => new PoolView(client, resource, flags).look(flags.recent));
  if (flags.json) printJson(pool);
  else print(drawPool(pool));
}

async function all(flags: LsFlags): Promise<void> {
  const { capacity: _capacity, slots: _slots, ...rest } = flags;
  const pools = await withClient(flags, (client) => poolsInUse(client, rest));
  if (flags.json) printJson(pools);
  else if (pools.length === 0) print('Nobody holds or waits for a permit.');
  else print(table(['resource', 'held', 'of', 'waiting', 'longest', 'set'], pools.map(row), ALIGN));
}

const ALIGN: ('left' | 'right')[] = ['left', 'right', 'right', 'right', 'right', 'left'];

function row({ resource, capacity, slots, waiters, queue, override, problem }: SeenPool): string[] {
  if (problem !== undefined) return [plain(resource), '?', '?', '?', '', plain(problem)];
  const first = waiters.map(({ since }) => since).sort((a, b) => a.getTime() - b.getTime())[0];
  return [
    plain(resource),
    String(slots.filter(({ state }) => state === 'held').length),
    capacity === undefined ? '?' : String(capacity),
    queue === 'silent' ? '?' : String(waiters.length),
    first ? sinceNow(first) : '',
    override ? overrideNote(override) : '',
  ];
}
