import { shellWord } from '../client/server/commands';
import type { Inspection, Override, SlotsBelief } from '../operator';
import type { DeadlockStep } from '../operator/deadlocks';

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

export function fromNow(date: Date): string {
  return span(date.getTime() - Date.now());
}

/** `"1.2 s"`. Seconds however long it is, so that columns of them compare. */
export function duration(ms: number): string {
  return `${(Math.max(0, ms) / 1_000).toFixed(1)} s`;
}

/** `"1 permit"`, `"3 permits"`. */
export function count(number: number, noun: string): string {
  return `${number} ${noun}${number === 1 ? '' : 's'}`;
}

/** One line for a cycle of Workflows that wait for each other. */
export function deadlockLine(steps: readonly DeadlockStep[]): string {
  return steps
    .map(({ workflowId, waitsFor, heldBy }) => `${workflowId} waits for "${waitsFor}", held by ${heldBy}`)
    .join('; ');
}

/** `"paused"`, `"paused until 2027-01-31T18:00:00.000Z"`. */
export function pauseNote({ pausedUntil }: Override): string {
  return `paused${untilNote(pausedUntil)}`;
}

/** `" until 2027-01-31T18:00:00.000Z"`; empty if it has no end. */
export function untilNote(until?: Date): string {
  return until ? ` until ${until.toISOString()}` : '';
}

/** `"resized to 5"`, `"resized to 1 until 2027-01-31T18:00:00.000Z, then 5 (limits file, version 7)"`. */
export function resizeNote({ capacity, capacityUntil, before }: Override): string {
  const now = capacity === undefined ? 'as declared' : `resized to ${capacity}`;
  if (!capacityUntil) return now;
  const source = before?.fileVersion === undefined ? '' : ` (${fileNote(before.fileVersion)})`;
  return `${now}${untilNote(capacityUntil)}, then ${before?.capacity ?? 'as declared'}${source}`;
}

/** `": node drain"`, `": limits file, version 7"`; empty if neither an operator nor a file has given a reason. */
export function reasonNote({ reason, fileVersion }: Override): string {
  const why = reason ?? (fileVersion === undefined ? undefined : fileNote(fileVersion));
  return why === undefined ? '' : `: ${why}`;
}

/** Where a limit comes from that no operator has set by hand. */
function fileNote(fileVersion: number): string {
  return `limits file, version ${fileVersion}`;
}

/** What to do about callers that disagree: until they agree, a resize has all of them use the same slots. */
export function disagreementRemedy({
  resource,
  disagreement = [],
  override,
}: Pick<Inspection, 'resource' | 'disagreement' | 'override'>): string {
  const agree = 'Give all callers the same capacity or slots.';
  const counts = disagreement.map(({ slots }) => Number(slots)); // of slots with names, it is no number
  if (override?.capacity !== undefined || !counts.every(Number.isInteger)) return agree;
  const [least, most] = [Math.min(...counts), Math.max(...counts)];
  const resize = `temporal-semaphore resize ${shellWord(resource)} ${most} --capacity ${least}`;
  return `${agree} Until every caller is deployed with it, have all of them use the same slots, such as all ${most}: ${resize}`;
}

/** `its callers disagree on the slots: 3 (2 of them, such as train-7), 2 (one, 4711@host)` */
export function disagreementLine(beliefs: readonly SlotsBelief[]): string {
  const each = beliefs.map(({ slots, count, by }) =>
    count === 1 ? `${slots} (one, ${by})` : `${slots} (${count} of them, such as ${by})`,
  );
  return `its callers disagree on the slots: ${each.join(', ')}`;
}
