import { keyResource } from '../shared/key-names';
import { MAX_REASON_LENGTH } from '../shared/protocol';
import type { Slots } from '../shared/slots';

/** What a limits file says. */
export interface LimitsFile {
  /** Grows with each change of the file. */
  readonly version: number;
  /** A limit for each resource, and for each key that the file names. */
  readonly limits: readonly Limit[];
}

/** What is to be in force for one resource, or for one of its keys. What is absent stays as it is. */
export interface Limit {
  readonly resource: string;
  readonly key?: string;
  /** How many slots are to be in use. A number that was set with an end stays all the same … */
  readonly capacity?: number;
  /** … or which: all that callers declare, or the first of them. */
  readonly slots?: readonly string[];
  /** The slots that callers declare in their code. It counts while no caller and no queue tells. */
  readonly declared?: Slots;
  /** `false`: not paused. A pause with an end stays all the same, for it ends by itself. */
  readonly paused?: false | { readonly reason: string };
  readonly owner?: string;
  readonly note?: string;
}

/** The resource that has these permits: with a key, the key's own. */
export function poolOf({ resource, key }: Pick<Limit, 'resource' | 'key'>): string {
  return key === undefined ? resource : keyResource(resource, key);
}

/** How many slots are to be in use. `undefined`: as many as now. */
export function wantedCount({ capacity, slots }: Limit): number | undefined {
  return capacity ?? slots?.length;
}

/** Named slots can only shrink to the first of them. */
export function isFirstOf(slots: readonly string[], names: readonly string[]): boolean {
  return slots.every((slot, index) => slot === names[index]);
}

const FROM_FILE = 'limits file, version ';

/** What operators read beside the override. */
export function reasonOf(version: number, { paused, note }: Pick<Limit, 'paused' | 'note'>): string {
  const why = paused ? paused.reason : note;
  return `${FROM_FILE}${version}${why === undefined ? '' : `: ${why}`}`;
}

/** The note in a reason that {@link reasonOf} has made, or the reason itself. */
export function noteIn(reason: string): string {
  const note = reason.startsWith(FROM_FILE) ? reason.replace(/^[^:]*(: )?/, '') : reason;
  return note.slice(0, MAX_NOTE_LENGTH);
}

/** The longest note, or reason of a pause, for which the override's reason has room, whatever the version. */
export const MAX_NOTE_LENGTH = MAX_REASON_LENGTH - `${FROM_FILE}${Number.MAX_SAFE_INTEGER}: `.length;
