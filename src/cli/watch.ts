import type { Command } from 'commander';
import { pause } from '../client/server/clock';
import { messageOf } from '../client/server/errors';
import { isTransient } from '../client/server/grpc-errors';
import type { Inspection, Operator, SlotInspection } from '../operator';
import { durationOption, type ResourceFlags, withResourceFlags } from './arguments';
import { withOperator } from './connection';
import { drawResource, headline } from './draw-resource';
import { signalCode } from './exit-codes';
import { holderName, print, printJson, say } from './terminal';
import { type Text, text } from './text';

interface WatchFlags extends ResourceFlags {
  every: number;
  wide?: boolean;
}

interface Screen {
  show(seen: Inspection): void;
  close(): void;
}

/** The shortest interval: each look costs a call for each slot. */
const LEAST_MS = 100;

const HELP = `
Examples:
  temporal-semaphore watch gpu-pool --every 2s
  temporal-semaphore watch gpu-pool -o jsonl | jq -c '[.at, .waiting]'
`;

export function addWatch(program: Command, done: (exitCode: number) => void): void {
  const watch = program
    .command('watch <resource>')
    .summary('keep showing who holds and who waits')
    .description(
      'Shows who holds permits of <resource> and who waits for them, until Ctrl-C. On a terminal, it redraws the screen. Otherwise, it prints a line with the time for each change or, with -o jsonl, a line of JSON for each refresh.',
    )
    .addOption(durationOption('--every <duration>', 'how often to refresh', '1s', LEAST_MS))
    .option('--wide', 'also show the run IDs')
    .addHelpText('after', HELP)
    .action(async (resource: string, flags: WatchFlags) => {
      done(await watchResource(resource, flags));
    });
  withResourceFlags(watch);
}

/** @returns the exit code */
async function watchResource(resource: string, flags: WatchFlags): Promise<number> {
  const interrupted = new AbortController();
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(name, () => interrupted.abort(name));
  const { signal } = interrupted;
  await withOperator(resource, flags, async (operator) => {
    const screen = await screenFor(flags);
    try {
      while (!signal.aborted) {
        await untilAborted(lookOnce(operator, screen), signal);
        await pause(flags.every, signal);
      }
    } finally {
      screen.close();
    }
  });
  return signalCode(signal.reason);
}

/** Waits for the look, which may take long if the server does not answer, or for the signal. */
async function untilAborted(look: Promise<void>, signal: AbortSignal): Promise<void> {
  let abort = () => {};
  const aborted = new Promise<void>((resolve) => {
    abort = resolve;
  });
  signal.addEventListener('abort', abort);
  await Promise.race([look, aborted]).finally(() => signal.removeEventListener('abort', abort));
}

/** Looks once. A transient error, as from a server that restarts, is only reported. @throws any other error */
async function lookOnce(operator: Operator, screen: Screen): Promise<void> {
  try {
    screen.show(await operator.inspect({ recent: 0 }));
  } catch (error) {
    if (!isTransient(error)) throw error;
    say(text`trying again: ${messageOf(error)}`);
  }
}

async function screenFor({ output, wide = false }: WatchFlags): Promise<Screen> {
  if (output !== 'text') return jsonLines();
  return process.stdout.isTTY ? await redrawn(wide) : changeLines();
}

function jsonLines(): Screen {
  return { show: (seen) => printJson({ at: new Date(), ...seen }, 'jsonl'), close() {} };
}

/** No line is wider than the terminal, and no table higher: the headline stays in sight. */
async function redrawn(wide: boolean): Promise<Screen> {
  const { createLogUpdate } = await import('log-update');
  const { default: cut } = await import('cli-truncate');
  const redraw = createLogUpdate(process.stdout);
  const { stdout } = process;
  // Two tables share the height. Their headings and their lines of what is left out take 8.
  const rows = () => Math.max(2, Math.floor(((stdout.rows || 24) - 8) / 2));
  return {
    show(seen) {
      const lines = String(drawResource(seen, { rows: rows(), wide })).split('\n');
      redraw(lines.map((line) => cut(line, stdout.columns || 80)).join('\n'));
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
  let isFirst = true; // the headline is enough for what it starts with
  return {
    show(seen) {
      for (const slot of seen.slots) {
        const now = text`slot ${slot.slot}: ${situation(slot)}`;
        if (isFirst) before.set(`slot ${slot.slot}`, String(now));
        else say(`slot ${slot.slot}`, now);
      }
      isFirst = false;
      say('resource', headline(seen));
    },
    close() {},
  };
}

function situation({ state, permit }: SlotInspection): Text {
  if (state !== 'held' || !permit) return text`${state}`;
  return text`held by ${holderName(permit.holder)}, run ${permit.runId}`;
}
