import type { Holder } from '../shared/protocol';

/**
 * What came from elsewhere (a Workflow ID, a purpose, an identity), fit for a terminal: nothing in it can move the cursor,
 * colour, or turn the direction of writing.
 */
export function plain(text: string): string {
  return text.replaceAll(/[\p{C}\p{Zl}\p{Zp}]/gu, escapeCharacter);
}

/** As {@link plain}, but for the ends of lines. */
export function plainLines(text: string): string {
  return text.split('\n').map(plain).join('\n');
}

/** One JSON text. Control characters are escaped in it, those too that JSON lets pass. */
export function json(value: unknown, indent = 2): string {
  // Line ends are ours: JSON has escaped those of the value.
  return JSON.stringify(value, undefined, indent).replaceAll(/[^\n\P{C}]|[\p{Zl}\p{Zp}]/gu, escapeUnits);
}

export function printJson(value: unknown, indent?: number): void {
  process.stdout.write(`${json(value, indent)}\n`);
}

export function print(line = ''): void {
  process.stdout.write(`${line}\n`);
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

/** Who holds: a Workflow, or somebody outside. */
export function holderName({ workflowId, identity }: Holder): string {
  return plain(workflowId ?? identity ?? 'unknown');
}

function escapeCharacter(character: string): string {
  return `\\u{${character.codePointAt(0)?.toString(16)}}`;
}

function escapeUnits(character: string): string {
  return [...Array(character.length).keys()]
    .map((index) => `\\u${character.charCodeAt(index).toString(16).padStart(4, '0')}`)
    .join('');
}
