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

const NO_LINES = Object.fromEntries(
  [
    ...['top', 'top-mid', 'top-left', 'top-right', 'bottom', 'bottom-mid', 'bottom-left', 'bottom-right'],
    ...['left', 'left-mid', 'mid', 'mid-mid', 'right', 'right-mid', 'middle'],
  ].map((part) => [part, '']),
);
