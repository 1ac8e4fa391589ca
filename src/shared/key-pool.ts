import { refuse } from './invalid-options';
import type { ResolvedSemaphore } from './options';
import { byteLength, byteOrder, checkResource, MAX_RESOURCE_BYTES } from './permit-id';
import { sha256 } from './sha256';
import { slotNames } from './slots';

/** How many permits each key may have: the same for all, or what a function of the key says. */
export type PerKey = number | ((key: string) => number);

/** Stands between a resource and a key in the name of the key's pool. No other resource may have it in its name. */
const MARK = '~key:';

/** Stands before a hash. No escaped key has it. */
const HASHED = '#';

const HASH_LENGTH = 64;

/** The longest name of a key's pool. Behind it there is room for a mark of its own, as behind any other resource's. */
const MAX_KEY_POOL_BYTES = MAX_RESOURCE_BYTES - 4;

/** The longest name of a resource whose keys have pools: a hash must fit behind it. */
const MAX_KEYED_RESOURCE_BYTES = MAX_KEY_POOL_BYTES - MARK.length - HASHED.length - HASH_LENGTH;

/** These bytes of a key stand for themselves. */
const PLAIN = /[A-Za-z0-9._@-]/;

/**
 * The resource that is the pool of one key: `<resource>~key:<key>`. Each byte of the key's UTF-8 other than `A-Za-z0-9._@-` is
 * written as `%XX`. Where that is longer than 200 bytes, it is `<resource>~key:#<SHA-256 of the key>`. So two keys never
 * have one pool, and no key's pool has the name of another resource.
 */
export function keyResource(resource: string, key: string): string {
  const bytes = new TextEncoder().encode(key);
  const escaped = Array.from(bytes, (byte) => {
    const character = String.fromCharCode(byte);
    return PLAIN.test(character) ? character : `%${byte.toString(16).toUpperCase().padStart(2, '0')}`;
  }).join('');
  const name = resource + MARK + escaped;
  return byteLength(name) <= MAX_KEY_POOL_BYTES ? name : resource + MARK + HASHED + sha256(bytes);
}

/** Ends the name of the pool of one permit that allows its holder to accumulate permits of a resource. */
const ACCUMULATOR = '~set';

/** The resource whose only permit allows its holder to keep some permits of `resource` while it waits for more. */
export function accumulatorResource(resource: string): string {
  return resource + ACCUMULATOR;
}

function isAccumulator(resource: string): boolean {
  return resource.endsWith(ACCUMULATOR);
}

/** The resource that the pool of a key, or of the accumulator, belongs to; of any other resource, itself. */
export function wholeOf(resource: string): string {
  const at = resource.indexOf(MARK);
  if (at >= 0) return resource.slice(0, at);
  return isAccumulator(resource) ? resource.slice(0, -ACCUMULATOR.length) : resource;
}

/** The resource for which the holder of a permit of this pool waits next. `undefined` for one of the user's: it is up to the set. */
export function nextOf(resource: string): string | undefined {
  if (isAccumulator(resource)) return resource.slice(0, -ACCUMULATOR.length);
  return isKeyPool(resource) ? wholeOf(resource) : undefined;
}

/** Whether it is the pool of a key. */
export function isKeyPool(resource: string): boolean {
  return resource.includes(MARK);
}

/** The name under which metrics count it: one for all keys of a resource, for each name would be a series. */
export function metricLabel(resource: string): string {
  return isKeyPool(resource) ? `${wholeOf(resource)}~key` : resource;
}

/**
 * The pool whose only permit its holder needs while it accumulates `permits` of `pool`; nobody else keeps a part of what it
 * wants. In strict order: those who want many are served as they came.
 */
export function accumulatorOf<Pool extends ResolvedSemaphore>(pool: Pool): Pool {
  const resource = accumulatorResource(pool.resource);
  checkResource(resource);
  return { ...pool, resource, slots: ['0'], compactSlots: 1, perKey: undefined, paceMs: undefined, fair: true };
}

/** The order in which everybody claims: by the bytes of the resource's name, and a key's pool before its resource. */
export function claimOrder(a: string, b: string): number {
  return byteOrder(wholeOf(a), wholeOf(b)) || Number(isKeyPool(b)) - Number(isKeyPool(a)) || byteOrder(a, b);
}

/** Refuses a name that only a pool of our own making may have. */
export function checkNoKeyPool(resource: string): void {
  if (isKeyPool(resource)) {
    refuse('resource', `a name without "${MARK}", which names the pool of a key: give "perKey" and "key"`, resource);
  }
  if (isAccumulator(resource)) refuse('resource', `a name that does not end with "${ACCUMULATOR}"`, resource);
}

/** Refuses limits that can be no pool. */
export function checkPerKey(
  resource: string,
  perKey: unknown,
  mostSlots: number,
): asserts perKey is PerKey | undefined {
  if (perKey === undefined) return;
  if (typeof perKey !== 'function') checkLimit('perKey', perKey, mostSlots);
  if (byteLength(resource) > MAX_KEYED_RESOURCE_BYTES) {
    refuse('resource', `at most ${MAX_KEYED_RESOURCE_BYTES} bytes of UTF-8, because it has keys`, resource);
  }
}

/** Refuses a key that is none, or of which two spellings look the same. */
export function checkKey(key: unknown): asserts key is string | undefined {
  if (key === undefined) return;
  if (typeof key !== 'string' || key === '') refuse('key', 'a non-empty string', key);
  if (/\p{Cs}/u.test(key) || key.normalize('NFC') !== key) refuse('key', "a text in Unicode's form NFC", key);
}

/**
 * The pools of which an acquirer needs a permit: the key's first, so that a key which is full holds no slot of the whole.
 * @throws InvalidOptionsError when the key is missing, or there is nothing that it could limit
 */
export function poolsFor<Pool extends ResolvedSemaphore>(
  whole: Pool,
  key: string | undefined,
  mostSlots: number,
): Pool[] {
  const { resource, perKey } = whole;
  if (perKey === undefined) {
    if (key !== undefined) refuse('key', `no key, because "${resource}" has no perKey`, key);
    return [whole];
  }
  if (key === undefined) refuse('key', `a key, because "${resource}" has a limit per key`, key);
  const capacity = typeof perKey === 'function' ? perKey(key) : perKey;
  checkLimit(`perKey(${JSON.stringify(key)})`, capacity, mostSlots);
  const slots = slotNames(capacity);
  const ofKey = { resource: keyResource(resource, key), slots, compactSlots: capacity };
  // The pace is that of the whole.
  return [{ ...whole, ...ofKey, perKey: undefined, paceMs: undefined }, whole];
}

function checkLimit(what: string, limit: unknown, most: number): asserts limit is number {
  if (!(Number.isInteger(limit) && (limit as number) >= 1 && (limit as number) <= most)) {
    refuse(what, `a whole number from 1 to ${most}`, limit);
  }
}
