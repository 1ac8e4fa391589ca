import { isKeyResource, keyOfResource, keyResource, nextOf, wholeOf } from '../shared/key-names';
import { MAX_REASON_LENGTH } from '../shared/protocol';
import type { Slots } from '../shared/slots';

/** What a limits file says. */
export interface LimitsFile {
  /** Grows with each change of the file. */
  readonly version: number;
  /** A limit for each resource, and for each key that the file names. */
  readonly limits: readonly Limit[];
  /** Of a resource: the limit of each of its keys that the file does not name. */
  readonly keyDefaults?: readonly Limit[];
}

/** What is to be in force for one resource, or for one of its keys. What is absent stays as it is. */
export interface Limit {
  readonly resource: string;
  readonly key?: string;
  /** The resource of a key that the file does not name, and whose own name may not tell the key. */
  readonly keyPool?: string;
  /** How many slots are to be in use. A number that was set with an end stays anyway … */
  readonly capacity?: number;
  /** … or which: all that callers declare, or the first of them. */
  readonly slots?: readonly string[];
  /** The slots that callers declare in their code. It counts while no caller and no queue tells. */
  readonly declared?: Slots;
  /** `false`: not paused. A pause with an end stays anyway, because it ends automatically. */
  readonly paused?: false | { readonly reason: string };
  readonly owner?: string;
  readonly note?: string;
}

/** The resource that has these permits: with a key, the key's own. */
export function poolOf({ resource, key, keyPool }: Pick<Limit, 'resource' | 'key' | 'keyPool'>): string {
  return keyPool ?? (key === undefined ? resource : keyResource(resource, key));
}

/**
 * The file with a limit for each key that is held and that the file does not name, where it has a default for such keys.
 *
 * @param held the names of resources
 */
export function withKeysInUse(file: LimitsFile, held: Iterable<string>): LimitsFile {
  const defaults = new Map(file.keyDefaults?.map((limit) => [limit.resource, limit]));
  const named = new Set(file.limits.map(poolOf));
  const later = [...held].flatMap((pool): Limit | [] => {
    const limit = isKeyResource(pool) ? defaults.get(wholeOf(pool)) : undefined;
    if (!limit || named.has(pool) || nextOf(pool) !== limit.resource) return [];
    const key = keyOfResource(pool);
    return { ...limit, ...(key !== undefined && { key }), keyPool: pool };
  });
  return { ...file, limits: [...file.limits, ...later] };
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

/** The reason that operators see with the override. */
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
