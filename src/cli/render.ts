import type { Holder } from '../shared/protocol';
import { plainLines, Text } from './text';

// The only file of the command line that writes to a terminal.

/** One JSON text. Control characters are escaped in it, those too that JSON lets pass. */
export function json(value: unknown, indent = 2): string {
  // Line ends are ours: JSON has escaped those of the value.
  return JSON.stringify(value, undefined, indent).replaceAll(/[^\n\P{C}]|[\p{Zl}\p{Zp}]/gu, escapeUnits);
}

/** On standard output. */
export function print(line: Text | '' = ''): void {
  process.stdout.write(`${line}\n`);
}

/** Where programs read: indented, or each value on a line of its own. */
export function printJson(value: unknown, output: 'json' | 'jsonl'): void {
  const texts = output === 'json' ? [json(value)] : [value].flat().map((one) => json(one, 0));
  for (const one of texts) process.stdout.write(`${one}\n`);
}

/** On standard error, beside whatever the command says there itself. */
export function say(message: Text | string): void {
  const shown = message instanceof Text ? message : plainLines(message);
  process.stderr.write(`temporal-semaphore: ${shown}\n`);
}

/** `"4.2 s"`, `"3m 12s"`, `"2h 5m"`, `"3d 4h"`. */
export function span(ms: number): string {
  const seconds = Math.max(0, ms) / 1_000;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  const whole = Math.floor(seconds);
  const [days, hours, minutes] = [
    Math.floor(whole / 86_400),
    Math.floor(whole / 3_600) % 24,
    Math.floor(whole / 60) % 60,
  ];
  if (days > 0) return `${days}d ${hours}h`;
  return hours > 0 ? `${hours}h ${minutes}m` : `${minutes}m ${whole % 60}s`;
}

export function sinceNow(date: Date): string {
  return span(Date.now() - date.getTime());
}

/** Who holds: a Workflow, or somebody outside. As it came: {@link Text} escapes it. */
export function holderName({ workflowId, identity }: Holder): string {
  return workflowId ?? identity ?? 'unknown';
}

function escapeUnits(character: string): string {
  return [...Array(character.length).keys()]
    .map((index) => `\\u${character.charCodeAt(index).toString(16).padStart(4, '0')}`)
    .join('');
}
