import type { Command } from 'commander';
import { pause } from '../client/clock';
import type { SlotInspection } from '../client/inspection';
import { durationOption } from './arguments';
import { withClient } from './client';
import { signalCode } from './exit-codes';
import { checkPool, type PoolFlags, PoolView, type SeenPool, withPoolFlags } from './pool';
import { drawPool, headline } from './pool-view';
import { holderName, plain, print, printJson } from './render';

interface WatchFlags extends PoolFlags {
  every: number;
}

type Show = (pool: SeenPool) => void;

/** Looking costs a call a slot, so not all the time. */
const LEAST_MS = 100;

export function addWatch(program: Command, done: (exitCode: number) => void): void {
  const watch = program
    .command('watch <resource>')
    .summary('show who holds and who waits, over and over')
    .description(
      'Shows who holds and who waits, until Ctrl-C: redrawn on a terminal, elsewhere a line for each change, and with --json one line of JSON a look.',
    )
    .addOption(durationOption('--every <duration>', 'how often to look', '1s', LEAST_MS))
    .action(async (resource: string, flags: WatchFlags) => {
      done(await watchPool(resource, flags));
    });
  withPoolFlags(watch);
}

/** @returns the exit code */
async function watchPool(resource: string, flags: WatchFlags): Promise<number> {
  checkPool(resource, flags);
  const interrupted = new AbortController();
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(name, () => interrupted.abort(name));
  const { signal } = interrupted;
  await withClient(flags, async (client) => {
    const view = new PoolView(client, resource, flags);
    const { show, close } = flags.json ? jsonLines() : process.stdout.isTTY ? await redrawn() : changeLines();
    try {
      while (!signal.aborted) {
        show(await view.look(0));
        await pause(flags.every, signal);
      }
    } finally {
      close();
    }
  });
  return signalCode(signal.reason);
}

function jsonLines(): { show: Show; close(): void } {
  return { show: (pool) => printJson(pool, 0), close() {} };
}

async function redrawn(): Promise<{ show: Show; close(): void }> {
  const { createLogUpdate } = await import('log-update');
  const redraw = createLogUpdate(process.stdout);
  // Headings, and the line of what is left out, twice.
  const room = () => Math.max(2, Math.floor((process.stdout.rows - 8) / 2));
  return { show: (pool) => redraw(drawPool(pool, room())), close: () => redraw.done() };
}

/** Compares each look with the one before. What comes and goes between two is not seen here. */
function changeLines(): { show: Show; close(): void } {
  const before = new Map<string, string>();
  let said = '';
  return {
    show(pool) {
      for (const slot of pool.slots) {
        const now = situation(slot);
        if (before.has(slot.slot) && before.get(slot.slot) !== now) print(`slot ${plain(slot.slot)}: ${now}`);
        before.set(slot.slot, now);
      }
      const line = headline(pool);
      if (line !== said) print(line);
      said = line;
    },
    close() {},
  };
}

function situation({ state, permit }: SlotInspection): string {
  return state === 'held' && permit ? `held by ${holderName(permit.holder)}, ${permit.runId}` : state;
}
