import type { Holder } from '../client';
import { plainLines, Text } from './text';

// The only file of the command line that writes to a terminal.

/** One JSON text, with all control characters escaped, also those that JSON allows. */
function json(value: unknown, indent = 2): string {
  // Line ends are ours: JSON has escaped those of the value.
  return JSON.stringify(value, undefined, indent).replaceAll(/[^\n\P{C}]|[\p{Zl}\p{Zp}]/gu, escapeUnits);
}

/** Writes to standard output. */
export function print(line: Text | '' = ''): void {
  process.stdout.write(`${line}\n`);
}

/** Writes JSON to standard output: one indented text, or each value on a line of its own. */
export function printJson(value: unknown, output: 'json' | 'jsonl'): void {
  const texts = output === 'json' ? [json(value)] : [value].flat().map((one) => json(one, 0));
  for (const one of texts) process.stdout.write(`${one}\n`);
}

/** Writes to standard error, where the command of `run` writes too. */
export function say(message: Text | string): void {
  const shown = message instanceof Text ? message : plainLines(message);
  process.stderr.write(`temporal-semaphore: ${shown}\n`);
}

/** The holder's Workflow ID, or a client's identity. Unescaped: {@link Text} escapes it. */
export function holderName({ workflowId, identity }: Holder): string {
  return workflowId ?? identity ?? 'unknown';
}

function escapeUnits(character: string): string {
  return [...Array(character.length).keys()]
    .map((index) => `\\u${character.charCodeAt(index).toString(16).padStart(4, '0')}`)
    .join('');
}
