import { refuse } from './check';
import { MAX_RESOURCE_BYTES } from './permit-id';
import { sha256 } from './sha256';
import { byteLength, byteOrder } from './utf8';

/** Separates a resource and a key in the name of the key's resource. No other resource may have this text in its name. */
const MARK = '~key:';

/** Precedes a hash. No escaped key contains it. */
const HASHED = '#';

const HASH_LENGTH = 64;

/** The longest name of a key's resource. It leaves room for `~set` at the end, as any other resource's name does. */
const MAX_KEY_RESOURCE_BYTES = MAX_RESOURCE_BYTES - 4;

/** The longest name of a resource that has keys: a hash must fit behind it. */
export const MAX_KEYED_RESOURCE_BYTES = MAX_KEY_RESOURCE_BYTES - MARK.length - HASHED.length - HASH_LENGTH;

/** These bytes of a key stand for themselves. */
const PLAIN = /[A-Za-z0-9._@-]/;

/**
 * The resource of one key: `<resource>~key:<key>`. Each byte of the key's UTF-8 other than `A-Za-z0-9._@-` is
 * written as `%XX`. If that name is longer than 200 bytes, it is `<resource>~key:#<SHA-256 of the key>` instead. So two keys never
 * share a resource, and no key's resource has the name of another resource.
 */
export function keyResource(resource: string, key: string): string {
  const bytes = new TextEncoder().encode(key);
  const escaped = Array.from(bytes, (byte) => {
    const character = String.fromCharCode(byte);
    return PLAIN.test(character) ? character : `%${byte.toString(16).toUpperCase().padStart(2, '0')}`;
  }).join('');
  const name = resource + MARK + escaped;
  return byteLength(name) <= MAX_KEY_RESOURCE_BYTES ? name : resource + MARK + HASHED + sha256(bytes);
}

/** The key whose resource this is; `undefined` for any other resource, and if the name contains only the key's hash. */
export function keyOfResource(resource: string): string | undefined {
  const [, escaped] = resource.split(MARK, 2);
  if (escaped === undefined || escaped.startsWith(HASHED)) return undefined;
  try {
    return decodeURIComponent(escaped);
  } catch {
    return undefined; // the name may be arbitrary
  }
}

/** Ends the name of the resource whose only permit allows its holder to accumulate permits of another resource. */
const ACCUMULATOR = '~set';

/** The resource whose only permit allows its holder to keep some permits of `resource` while it waits for more. */
export function accumulatorResource(resource: string): string {
  return resource + ACCUMULATOR;
}

function isAccumulator(resource: string): boolean {
  return resource.endsWith(ACCUMULATOR);
}

/** The user's resource to which a key's or an accumulator's resource belongs; any other name unchanged. */
export function wholeOf(resource: string): string {
  const at = resource.indexOf(MARK);
  if (at >= 0) return resource.slice(0, at);
  return isAccumulator(resource) ? resource.slice(0, -ACCUMULATOR.length) : resource;
}

/** The resource for which a holder of this one waits next. `undefined` for a resource of the user's: the set decides. */
export function nextOf(resource: string): string | undefined {
  if (isAccumulator(resource)) return resource.slice(0, -ACCUMULATOR.length);
  return isKeyResource(resource) ? wholeOf(resource) : undefined;
}

/** Whether it is the resource of a key. */
export function isKeyResource(resource: string): boolean {
  return resource.includes(MARK);
}

/** The name under which metrics count a resource: one for all keys, for each name would be a series. */
export function metricLabel(resource: string): string {
  return isKeyResource(resource) ? `${wholeOf(resource)}~key` : resource;
}

/** The order in which all callers claim: by the bytes of the resource's name, and a key before its resource. */
export function claimOrder(a: string, b: string): number {
  return byteOrder(wholeOf(a), wholeOf(b)) || Number(isKeyResource(b)) - Number(isKeyResource(a)) || byteOrder(a, b);
}

/** Refuses the name of a key's or an accumulator's resource: only the library may make one. */
export function checkNotDerived(resource: string): void {
  if (isKeyResource(resource)) {
    refuse(
      'resource',
      `a name without "${MARK}", which names the resource of a key: give "perKey" and "key"`,
      resource,
    );
  }
  if (isAccumulator(resource)) refuse('resource', `a name that does not end with "${ACCUMULATOR}"`, resource);
}
