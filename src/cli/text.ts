import { stripVTControlCharacters } from 'node:util';
import Table from 'cli-table3';
import { createColors } from 'picocolors';

const plainly = Boolean(process.env.NO_COLOR) || process.env.TERM === 'dumb' || !process.stdout.isTTY;

/** Colours on a terminal that wants them. */
export const paint = createColors(!plainly);

/**
 * Text that is safe on a terminal. Commands print nothing else. Only {@link text} and its like make one, and they escape
 * each foreign string in it once. So a name that others chose (a Workflow ID, a purpose, an outcome) can't move the cursor,
 * set colours or reverse the direction of writing.
 */
export class Text {
  private constructor(private readonly shown: string) {}

  /** Makes our own text, with its colours and line ends. Never call it with anything that came over the wire. */
  static ours(shown: string): Text {
    return new Text(shown);
  }

  /** Escaped, unless it is a text already. */
  static of(value: unknown): Text {
    return value instanceof Text ? value : new Text(plain(value));
  }

  /** One below the other. */
  static lines(lines: readonly unknown[]): Text {
    return new Text(lines.map((line) => Text.of(line).shown).join('\n'));
  }

  toString(): string {
    return this.shown;
  }
}

/** A template whose values are escaped: ``text`slot ${slot} is held by ${holder}` ``. */
export function text(ours: TemplateStringsArray, ...values: unknown[]): Text {
  return Text.ours(ours.map((part, index) => part + (index < values.length ? Text.of(values[index]) : '')).join(''));
}

/** Colours, where the terminal wants them. */
export const red = painted(paint.red);
export const green = painted(paint.green);
export const yellow = painted(paint.yellow);
export const dim = painted(paint.dim);

function painted(colour: (shown: string) => string): (value: unknown) => Text {
  return (value) => Text.ours(colour(Text.of(value).toString()));
}

export type Align = 'left' | 'right';

/** The spaces between two columns. */
const GAP = 2;

/** A name is cut no shorter. */
const LEAST_NAME = 20;

/**
 * A table without lines. A cell that is not a text is escaped first, so no foreign object reaches the table library. Where a line is
 * too wide, the widest column gives way, but for the last: its names are cut in the middle, for they differ at their ends.
 */
export function table(head: string[], rows: readonly unknown[][], align: Align[], width = terminalWidth()): Text {
  // A row that ends early would get an empty line below it.
  const cells = rows.map((row) => head.map((_, index) => Text.of(row[index]).toString()));
  const widths = head.map((title, index) =>
    cells.reduce((most, row) => Math.max(most, stripVTControlCharacters(row[index] ?? '').length), title.length),
  );
  const before = widths.slice(0, -1);
  const widest = before.indexOf(Math.max(...before));
  const others = before.reduce((sum, own, index) => sum + GAP + (index === widest ? 0 : own), 0);
  const room = Math.max(LEAST_NAME, width - others - (head.at(-1) ?? '').length);
  for (const [index, row] of rows.entries()) {
    const cut = cells[index];
    if (cut && widest >= 0 && !(row[widest] instanceof Text)) cut[widest] = shortened(cut[widest] ?? '', room);
  }
  return Text.ours(drawTable(head, cells, align));
}

/** Nothing but a terminal has a width, and one without a size says 0. */
export function terminalWidth(): number {
  const { isTTY, columns } = process.stdout;
  return isTTY && columns > 0 ? columns : Number.POSITIVE_INFINITY;
}

function shortened(name: string, most: number): string {
  const characters = [...name];
  if (characters.length <= most) return name;
  const left = Math.ceil((most - 1) / 2);
  return [...characters.slice(0, left), '…', ...characters.slice(left + 1 - most)].join('');
}

/**
 * Any value as one line without control characters. It may be of any type: any client of the namespace can send anything.
 */
function plain(value: unknown): string {
  return written(value).replaceAll(/[\p{C}\p{Zl}\p{Zp}]/gu, escapeCharacter);
}

/** As {@link plain}, but it keeps the ends of lines. */
export function plainLines(value: string): string {
  return value.split('\n').map(plain).join('\n');
}

function written(value: unknown): string {
  if (typeof value === 'string') return value;
  if (value === undefined || value === null) return '';
  // JSON, and not `toString`, which the value may have as a field of its own.
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
}

function escapeCharacter(character: string): string {
  return `\\u{${character.codePointAt(0)?.toString(16)}}`;
}

/** A table without lines, so that a fencing token fits into 80 columns. */
export function drawTable(head: string[], rows: string[][], align: Align[]): string {
  const drawn = new Table({
    head: head.map((title) => paint.dim(title)),
    colAligns: align,
    chars: NO_LINES,
    style: { head: [], border: [], 'padding-left': 0, 'padding-right': GAP },
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
