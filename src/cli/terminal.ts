import { createInterface } from 'node:readline/promises';
import { type Holder, InvalidOptionsError } from '../client';
import { plainLines, Text, terminalWidth, text } from './text';

// The only file of the command line that writes to a terminal.

/** One JSON text, with all control characters escaped, also those that JSON allows. */
function json(value: unknown, indent = 2): string {
  // Line ends are ours: JSON has escaped those of the value.
  return escaped(JSON.stringify(value, undefined, indent));
}

function escaped(document: string): string {
  return document.replaceAll(/[^\n\P{C}]|[\p{Zl}\p{Zp}]/gu, escapeUnits);
}

/** Writes YAML to standard output. Any control character of it stands between double quotes, where it is escaped as in JSON. */
export function printYaml(document: string): void {
  process.stdout.write(escaped(document));
}

/** Writes to standard output. */
export function print(line: Text | '' = ''): void {
  process.stdout.write(`${line}\n`);
}

/** Writes lines of tables to standard output. On a terminal, none is wider than that. */
export async function printCut(lines: Text): Promise<void> {
  const width = terminalWidth();
  if (width === Number.POSITIVE_INFINITY) return print(lines);
  const { default: cut } = await import('cli-truncate');
  for (const line of String(lines).split('\n')) process.stdout.write(`${cut(line, width)}\n`);
}

/** Ends the line on which a terminal has shown `^C`, or on which a question stands. */
export function endLine(): void {
  if (process.stderr.isTTY) process.stderr.write('\n');
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

/** A signal has ended the wait or the question. (A prompt reads key by key, so Ctrl-C reaches no signal handler there.) */
export class Interrupted extends Error {
  constructor(readonly signal: NodeJS.Signals) {
    super(`Interrupted by ${signal}`);
  }
}

/** Asks the operator on a terminal. Without a terminal, only `--yes` confirms. @throws Interrupted by Ctrl-C */
export async function confirmed(question: Text, { yes }: { yes?: true }): Promise<boolean> {
  if (yes) return true;
  if (!process.stdin.isTTY || !process.stderr.isTTY) {
    throw new InvalidOptionsError(`${question} No terminal for confirmation: pass --yes.`);
  }
  // Not on standard output, which may go to a file.
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  let isOver = false;
  const given = new Promise<string>((resolve, reject) => {
    terminal.once('SIGINT', () => reject(new Interrupted('SIGINT')));
    terminal.once('close', () => {
      if (!isOver) endLine(); // Ctrl-D
      resolve('');
    });
  });
  try {
    const answer = await Promise.race([terminal.question(`${text`${question} [y/N] `}`), given]);
    return /^y(es)?$/i.test(answer.trim());
  } finally {
    isOver = true;
    terminal.close();
  }
}
