import Table from 'cli-table3';
import { createColors } from 'picocolors';

const plainly = Boolean(process.env.NO_COLOR) || process.env.TERM === 'dumb' || !process.stdout.isTTY;

/** Colours on a terminal that wants them. */
export const paint = createColors(!plainly);

/** A table without lines, which fits a fencing token into 80 columns. */
export function table(head: string[], rows: string[][], align: ('left' | 'right')[]): string {
  const drawn = new Table({
    head: head.map((title) => paint.dim(title)),
    colAligns: align,
    chars: NO_LINES,
    style: { head: [], border: [], 'padding-left': 0, 'padding-right': 2 },
  });
  drawn.push(...rows);
  return drawn
    .toString()
    .split('\n')
    .map((line) => line.trimEnd())
    .join('\n');
}

/** `"1.2 s"`. Seconds however long it is, so that columns of them compare. */
export function duration(ms: number): string {
  return `${(Math.max(0, ms) / 1_000).toFixed(1)} s`;
}

/** `"1 permit"`, `"3 permits"`. */
export function count(number: number, noun: string): string {
  return `${number} ${noun}${number === 1 ? '' : 's'}`;
}

const NO_LINES = Object.fromEntries(
  [
    ...['top', 'top-mid', 'top-left', 'top-right', 'bottom', 'bottom-mid', 'bottom-left', 'bottom-right'],
    ...['left', 'left-mid', 'mid', 'mid-mid', 'right', 'right-mid', 'middle'],
  ].map((part) => [part, '']),
);
