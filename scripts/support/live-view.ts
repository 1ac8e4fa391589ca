import { dim, green, paint, type Text, table, text } from '@/cli/text';
import { duration } from '@/cli/wording';
import type { Outcome } from './consumer-run';
import type { SlotState } from './slots';

/** What is to be seen of a run at one time. */
interface Scene {
  elapsedMs: number;
  nowMs: number;
  slots: SlotState[];
  consumers: string[];
  /** Those who have been seen with a permit. They do not wait for one again: without it now, they are about to end. */
  served: ReadonlySet<string>;
  outcomes: ReadonlyMap<string, Outcome>;
  /** How long each holds. */
  holdMs: number;
}

/** Shows a run while it goes on. */
export interface LiveView {
  show(scene: Scene): void;
  /** Leaves nothing behind on a terminal. */
  close(): void;
}

/** A table that is drawn over and over on a terminal; elsewhere, a line for each change. */
export async function openLiveView(out: NodeJS.WriteStream): Promise<LiveView> {
  if (!out.isTTY || process.env.TERM === 'dumb')
    return { show: changeLines((line) => out.write(`${line}\n`)), close() {} };
  const { createLogUpdate } = await import('log-update');
  const redraw = createLogUpdate(out);
  return {
    show: (scene) => redraw(draw(scene, out.rows)),
    close() {
      redraw.clear();
      redraw.done();
    },
  };
}

function waiting({ consumers, outcomes, served }: Scene): string[] {
  return consumers.filter((consumer) => !outcomes.has(consumer) && !served.has(consumer));
}

const BAR = 20;

/** How far something is, from 0 to 1. */
export function bar(share: number): Text {
  const full = Math.round(BAR * Math.min(1, Math.max(0, share)));
  return text`${green('█'.repeat(full))}${dim('░'.repeat(BAR - full))}`;
}

function draw(scene: Scene, terminalRows: number): string {
  const { slots, nowMs, elapsedMs, holdMs } = scene;
  const room = Math.max(3, terminalRows - 8);
  // Of one width throughout, so that the columns stand still.
  const width = Math.max(...scene.consumers.map(({ length }) => length));
  const rows = slots.slice(0, room).map(({ slot, held }) => {
    const holder = held ? green(held.by.padEnd(width)) : dim('free'.padEnd(width));
    const forMs = held ? nowMs - held.sinceMs : 0;
    return [slot, bar(forMs / holdMs), holder, (held ? duration(forMs) : '').padStart(8)];
  });
  const hidden = slots.length - rows.length;
  const ended = [...scene.outcomes.keys()];
  return [
    '',
    table(['slot', 'its work', 'holder', 'for'], rows, ['right', 'left', 'left', 'right']),
    ...(hidden > 0 ? [paint.dim(`… and ${hidden} more slots`)] : []),
    '',
    `${paint.yellow('waiting ')} ${numbers(waiting(scene))}`,
    `${paint.dim('ended   ')} ${numbers(ended)}`,
    paint.dim(`${duration(elapsedMs)} · Ctrl-C ends it`),
  ].join('\n');
}

/** The consumers of a run differ by the number at the end of their IDs. */
function numbers(consumers: string[]): string {
  if (consumers.length === 0) return paint.dim('none');
  const all = consumers.map((consumer) => Number(consumer.split('-').at(-1))).sort((a, b) => a - b);
  return `${String(consumers.length).padStart(3)}  ${paint.dim(all.join(' '))}`;
}

/** Compares each scene with the one before. What comes and goes between two looks is not seen here. */
function changeLines(write: (line: string) => void): (scene: Scene) => void {
  const holders = new Map<string, string | undefined>();
  const told = new Set<string>();
  return (scene) => {
    const changes: string[] = [];
    for (const [consumer, outcome] of scene.outcomes) {
      if (!told.has(consumer)) changes.push(`${consumer} ${outcome.ok ? 'finished' : `failed: ${outcome.why}`}`);
      told.add(consumer);
    }
    for (const { slot, held } of scene.slots) {
      if (held && held.by !== holders.get(slot)) changes.push(`${held.by} holds slot ${slot}`);
      holders.set(slot, held?.by);
    }
    const holding = scene.slots.filter(({ held }) => held).length;
    for (const change of changes) {
      write(`${duration(scene.elapsedMs).padStart(7)}  ${change} (${holding} held, ${waiting(scene).length} waiting)`);
    }
  };
}
