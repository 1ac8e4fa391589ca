import type { ResourceView, SilenceView } from '../page-protocol';

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** A duration that does not change: `0 s`, `840 ms`, `3.2 s`, `42 s`, `4 m 10 s`, `2 h 5 m`, `3 d 4 h`. */
export function duration(ms: number): string {
  if (ms <= 0) return '0 s';
  if (ms < SECOND) return `${Math.ceil(ms)} ms`;
  if (ms < 10 * SECOND) return `${(ms / SECOND).toFixed(1)} s`;
  return ticking(ms);
}

/** A duration that changes while the page shows it, in whole seconds. */
export function ticking(ms: number): string {
  const left = Math.max(0, ms);
  if (left < MINUTE) return `${Math.floor(left / SECOND)} s`;
  if (left < HOUR) return two(left, MINUTE, 'm', SECOND, 's');
  if (left < DAY) return two(left, HOUR, 'h', MINUTE, 'm');
  return two(left, DAY, 'd', HOUR, 'h');
}

function two(ms: number, large: number, largeName: string, small: number, smallName: string): string {
  const rest = Math.floor((ms % large) / small);
  return `${Math.floor(ms / large)} ${largeName}${rest > 0 ? ` ${rest} ${smallName}` : ''}`;
}

export function clock(ms: number): string {
  return new Date(ms).toLocaleTimeString(undefined, { hour12: false });
}

/** `paused`, or until when. */
export function pauseText(untilMs?: number): string {
  return `paused${untilText(untilMs)}`;
}

type Override = NonNullable<ResourceView['head']['override']>;

/** `resized to 5`, `resized to 1 until 18:00:00, then 5 (limits file, version 7)`; empty if a pause alone is set. */
export function resizeText({ capacity, capacityUntilMs, before, paused, fileVersion }: Override): string {
  const isNone = capacity === undefined && capacityUntilMs === undefined;
  if (isNone && (paused || fileVersion === undefined)) return '';
  const now = capacity === undefined ? 'as declared' : `resized to ${capacity}`;
  if (capacityUntilMs === undefined) return now;
  const source = before?.fileVersion === undefined ? '' : ` (${fileText(before.fileVersion)})`;
  return `${now}${untilText(capacityUntilMs)}, then ${before?.capacity ?? 'as declared'}${source}`;
}

/** Who has set what has no end, or the capacity that has one. */
export function sourceText({ fileVersion, capacity, capacityUntilMs, paused, pausedUntilMs }: Override): string {
  if (fileVersion !== undefined) return fileText(fileVersion);
  const isOnlyPauseWithEnd = paused && pausedUntilMs !== undefined && capacity === undefined;
  return isOnlyPauseWithEnd && capacityUntilMs === undefined ? '' : 'set by hand'; // a Workflow may pause, too
}

function fileText(version: number): string {
  return `limits file, version ${version}`;
}

/** With the day when that is not today. */
function untilText(untilMs?: number): string {
  if (untilMs === undefined) return '';
  const day = new Date(untilMs).toLocaleDateString();
  return ` until ${day === new Date().toLocaleDateString() ? '' : `${day}, `}${clock(untilMs)}`;
}

export function count(amount: number, what: string): string {
  return `${amount} ${what}${amount === 1 ? '' : 's'}`;
}

/** Shortens names by the beginning that all of them share, up to a `-`, `/`, `:`, `.` or `_`. */
export function shortNames(names: Iterable<string>): (name: string) => string {
  const [first = '', ...others] = new Set(names);
  let shared = first.length;
  for (const other of others) {
    let same = 0;
    while (same < shared && other[same] === first[same]) same++;
    shared = same;
  }
  const cut = others.length === 0 ? 0 : first.slice(0, shared).search(/[-/:._][^-/:._]*$/) + 1;
  return (name) => name.slice(cut) || name;
}

/** The state of the page's connection. */
export interface Connection {
  link: 'connecting' | 'live' | 'lost';
  /** When the server last sent an event, by its clock. */
  heardAtMs: number;
  /** Absent while Temporal answers the server. */
  silence?: SilenceView;
}

/** Why the whole page is old. */
export interface Silence {
  /** In a word or two, for the head of the page. */
  word: string;
  why: string;
  /** The time of what the page shows, if it shows something. */
  asOfMs?: number;
}

/** Absent while the page is current, but for single resources. */
export function silenceOf({ link, heardAtMs, silence }: Connection): Silence | undefined {
  if (link === 'lost') {
    const asOfMs = silence?.sinceMs ?? (heardAtMs || undefined);
    return { word: 'Connection lost', why: "The dashboard's server does not answer.", asOfMs };
  }
  if (link !== 'live' || !silence) return undefined;
  return { word: 'Not live', why: `The page gets nothing from Temporal: ${silence.problem}.`, asOfMs: silence.sinceMs };
}

/** The time of the page's view of this resource; `undefined` when it is current. */
export function asOf(connection: Connection, { head }: ResourceView): number | undefined {
  if (!head.ready) return undefined;
  return head.asOfMs ?? silenceOf(connection)?.asOfMs;
}

/** The title of the browser's tab: `3/4 +2 gpu-pool` when two wait, `? gpu-pool` when the view is old. */
export function titleOf(connection: Connection, view: ResourceView | undefined): string {
  if (!view) return 'temporal-semaphore';
  const { held, capacity, waiting = 0, ready } = view.head;
  const isKnown = ready && asOf(connection, view) === undefined;
  const line = waiting > 0 ? ` +${waiting}` : '';
  return `${isKnown ? `${held}${capacity === undefined ? '' : `/${capacity}`}${line}` : '?'} ${view.resource}`;
}
