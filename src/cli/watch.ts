import type { Command } from 'commander';
import type { SlotInspection } from '../client';
import { checkPool, isTransient, messageOf, PoolByName, pause, type SeenPool } from '../client/operators';
import { durationOption, type PoolFlags, withPoolFlags } from './arguments';
import { withClient } from './client';
import { drawPool, headline } from './draw-pool';
import { signalCode } from './exit-codes';
import { holderName, print, printJson, say } from './render';
import { type Text, text } from './text';

interface WatchFlags extends PoolFlags {
  every: number;
  wide?: boolean;
}

interface Screen {
  show(pool: SeenPool): void;
  close(): void;
}

/** The shortest interval: each look costs a call for each slot. */
const LEAST_MS = 100;

const HELP = `
Examples:
  temporal-semaphore watch gpu-pool --every 2s
  temporal-semaphore watch gpu-pool -o jsonl | jq -c '[.at, (.waiters | length)]'
`;

export function addWatch(program: Command, done: (exitCode: number) => void): void {
  const watch = program
    .command('watch <resource>')
    .summary('show who holds and who waits, over and over')
    .description(
      'Shows who holds and who waits, until Ctrl-C. It redraws a terminal. Elsewhere it prints a line with the time for each change, and with -o jsonl a line of JSON for each look.',
    )
    .addOption(durationOption('--every <duration>', 'how often to look', '1s', LEAST_MS))
    .option('--wide', 'also show the run IDs')
    .addHelpText('after', HELP)
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
    const pool = new PoolByName(client, resource, flags);
    const screen = await screenFor(flags);
    try {
      while (!signal.aborted) {
        await untilAborted(lookOnce(pool, screen), signal);
        await pause(flags.every, signal);
      }
    } finally {
      screen.close();
    }
  });
  return signalCode(signal.reason);
}

/** Waits for the look, which may take long where the server does not answer, or for the signal. */
async function untilAborted(look: Promise<void>, signal: AbortSignal): Promise<void> {
  let abort = () => {};
  const aborted = new Promise<void>((resolve) => {
    abort = resolve;
  });
  signal.addEventListener('abort', abort);
  await Promise.race([look, aborted]).finally(() => signal.removeEventListener('abort', abort));
}

/** A server that restarts is no reason to look away. @throws any other error */
async function lookOnce(pool: PoolByName, screen: Screen): Promise<void> {
  try {
    screen.show(await pool.inspect({ recent: 0, search: true }));
  } catch (error) {
    if (!isTransient(error)) throw error;
    say(text`looking again: ${messageOf(error)}`);
  }
}

async function screenFor({ output, wide = false }: WatchFlags): Promise<Screen> {
  if (output !== 'text') return jsonLines();
  return process.stdout.isTTY ? await redrawn(wide) : changeLines();
}

function jsonLines(): Screen {
  return { show: (pool) => printJson({ at: new Date(), ...pool }, 'jsonl'), close() {} };
}

/** No line is wider than the terminal, and no table higher: the headline stays in sight. */
async function redrawn(wide: boolean): Promise<Screen> {
  const { createLogUpdate } = await import('log-update');
  const { default: cut } = await import('cli-truncate');
  const redraw = createLogUpdate(process.stdout);
  const { stdout } = process;
  // Two tables share the height. Their headings and their lines of what is left out take 8.
  const rows = () => Math.max(2, Math.floor((stdout.rows - 8) / 2));
  return {
    show(pool) {
      const lines = String(drawPool(pool, { rows: rows(), wide })).split('\n');
      redraw(lines.map((line) => cut(line, stdout.columns)).join('\n'));
    },
    close: () => redraw.done(),
  };
}

/** Compares each look with the one before. It misses a permit that comes and goes between two looks. */
function changeLines(): Screen {
  const before = new Map<string, string>();
  const say = (what: string, now: Text) => {
    if (before.get(what) !== String(now)) print(text`${new Date().toISOString()} ${now}`);
    before.set(what, String(now));
  };
  let isFirst = true; // of what it starts with, the headline is enough
  return {
    show(pool) {
      for (const slot of pool.slots) {
        const now = text`slot ${slot.slot}: ${situation(slot)}`;
        if (isFirst) before.set(`slot ${slot.slot}`, String(now));
        else say(`slot ${slot.slot}`, now);
      }
      isFirst = false;
      say('pool', headline(pool));
    },
    close() {},
  };
}

function situation({ state, permit }: SlotInspection): Text {
  if (state !== 'held' || !permit) return text`${state}`;
  return text`held by ${holderName(permit.holder)}, run ${permit.runId}`;
}
