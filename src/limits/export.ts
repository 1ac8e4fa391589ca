import { Document, visit } from 'yaml';
import { isKeyResource, keyOfResource, wholeOf } from '../shared/key-names';
import { type Slots, slotNames } from '../shared/slots';
import { versionInForce } from '../shared/version-in-force';
import { believed } from './compare';
import type { InForce } from './in-force';
import { noteIn } from './limit';

// Writes what is in force as a limits file, in which `compare` then finds nothing to change.

/** What the file says of one pool. */
interface WrittenLimit {
  capacity?: number;
  slots?: readonly string[];
  declared?: Slots;
  paused?: { reason: string };
  note?: string;
}

interface WrittenResource extends WrittenLimit {
  perKey?: { declared?: number; keys: Record<string, number | WrittenLimit> };
}

/** A limits file as plain data. */
export interface LimitsData {
  version: number;
  resources: Record<string, WrittenResource>;
}

export interface Exported {
  readonly data: LimitsData;
  /** What could not be written, and why. */
  readonly leftOut: readonly { readonly pool: string; readonly why: string }[];
}

/** @param seen what is in force for each resource, the keys' own among them */
export function exportLimits(seen: ReadonlyMap<string, InForce>): Exported {
  const resources: LimitsData['resources'] = {};
  const leftOut: { pool: string; why: string }[] = [];
  for (const [pool, now] of [...seen].sort(([a], [b]) => (a < b ? -1 : 1))) {
    const [whole, key] = [wholeOf(pool), keyOfResource(pool)];
    if (whole !== pool && !isKeyResource(pool)) continue; // the accumulator's, of which there is always one
    const isNameless = whole !== pool && key === undefined;
    const written = isNameless ? 'its name does not tell the key' : limitOf(pool, now);
    if (typeof written === 'string') leftOut.push({ pool, why: written });
    else {
      resources[whole] ??= {};
      if (key === undefined) Object.assign(resources[whole], written);
      else addKey(resources[whole], key, written);
    }
  }
  const versions = [...seen.values()].map(({ override }) => versionInForce(override) ?? 0);
  return { data: { version: Math.max(0, ...versions) + 1, resources }, leftOut };
}

function addKey(resource: WrittenResource, key: string, { declared, ...limit }: WrittenLimit): void {
  resource.perKey ??= { keys: {} };
  const { perKey } = resource;
  // Keys may differ: then the file names none, and `apply` needs a caller that tells.
  if (typeof declared === 'number' && (perKey.declared ?? declared) === declared) perKey.declared = declared;
  const isNumber = limit.capacity !== undefined && Object.keys(limit).length === 1;
  perKey.keys[key] = isNumber ? (limit.capacity as number) : limit;
}

/** Or why there is nothing to write. */
function limitOf(pool: string, now: InForce): WrittenLimit | string {
  const { queue, override } = now;
  if (queue === 'silent') return 'no worker answers for its queue, so what is set is not known';
  const belief = believed({ resource: pool }, now);
  if (!belief) return 'neither its queue nor its permits say how many slots it has';
  const { slots = belief.count } = belief;
  const lasting = override?.capacityUntilMs === undefined ? override : override.before;
  const capacity = lasting?.capacity ?? belief.count;
  const isNamed = typeof slots !== 'number';
  const isChanged = capacity !== belief.count;
  const isPaused = override?.paused === true && override.pausedUntilMs === undefined;
  const note = lasting?.reason === undefined ? '' : noteIn(lasting.reason);
  return {
    ...(isNamed ? { slots: slotNames(slots).slice(0, capacity) } : { capacity }),
    ...((isChanged || isPaused) && { declared: slots }),
    ...(isPaused ? { paused: { reason: note || 'paused' } } : isChanged && note && { note }),
  };
}

/** The text of a limits file. */
export function limitsText({ data, leftOut }: Exported): string {
  const document = new Document(data);
  const missing = leftOut.map(({ pool, why }) => `Left out: ${JSON.stringify(pool)}: ${why}`);
  document.commentBefore = [EDITORS, ...missing].map((line) => ` ${line}`).join('\n');
  visit(document, {
    Scalar(_, node) {
      // Only between double quotes can the printing code escape a character.
      if (typeof node.value === 'string' && UNPRINTABLE.test(node.value)) node.type = 'QUOTE_DOUBLE';
    },
  });
  return document.toString({ lineWidth: 0 });
}

/** Tells editors the schema. */
const EDITORS = 'yaml-language-server: $schema=node_modules/temporal-semaphore/lib/limits.schema.json';

const UNPRINTABLE = /[\p{C}\p{Zl}\p{Zp}]/u;
