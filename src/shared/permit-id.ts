import { refuse } from './check';
import type { OverrideState, SlotsMark } from './protocol';

/**
 * The Workflow IDs of the protocol. A Workflow ID is the claim: the server never runs two Workflows with one ID, so starting
 * `permit:<resource>:<slot>` takes that slot. Only this module writes these prefixes.
 */
const PERMIT_PREFIX = 'permit:';
const QUEUE_PREFIX = 'permit-queue:';
const WAITER_PREFIX = 'permit-waiter:';

/** The server takes 1,000 bytes, but its SQL schemas store 255. */
export const MAX_ID_BYTES = 255;

/** The longest resource name, in bytes, for which every ID of the protocol fits: a waiter's ends in `:<uuid>`. */
const MAX_RESOURCE_BYTES = MAX_ID_BYTES - WAITER_PREFIX.length - ':'.length - 36;

const PRINTABLE_ASCII = /^[ -~]*$/;
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
const UNPRINTABLE = /[\p{C}\p{Zl}\p{Zp}]/u;

/** A permit's place: one slot of one resource. */
export interface PermitAddress {
  readonly resource: string;
  readonly slot: string;
}

/** The ID of the Workflow that is the permit of `slot`. */
export function permitId({ resource, slot }: PermitAddress): string {
  return `${PERMIT_PREFIX}${resource}:${slot}`;
}

/** The ID of the Workflow that keeps the wait queue of `resource`. */
export function queueId(resource: string): string {
  return QUEUE_PREFIX + resource;
}

/** The resource whose wait queue has this ID. */
export function resourceOfQueue(workflowId: string): string {
  return workflowId.slice(QUEUE_PREFIX.length);
}

/** The ID of the Workflow that waits on behalf of a client. `uuid` makes it unique. */
export function waiterId(resource: string, uuid: string): string {
  return `${WAITER_PREFIX}${resource}:${uuid}`;
}

/** Reads a permit's Workflow ID; `undefined` for any other ID. A resource may contain `:`, a slot may not. */
export function parsePermitId(workflowId: string): PermitAddress | undefined {
  if (!workflowId.startsWith(PERMIT_PREFIX)) return undefined;
  const separator = workflowId.lastIndexOf(':');
  const resource = workflowId.slice(PERMIT_PREFIX.length, separator);
  const slot = workflowId.slice(separator + 1);
  return resource && slot ? { resource, slot } : undefined;
}

/** Checks a resource name. @throws InvalidOptionsError when the protocol can't carry it */
export function checkResource(resource: unknown): asserts resource is string {
  const name = checkName('resource', resource);
  if (byteLength(name) > MAX_RESOURCE_BYTES) {
    refuse('resource', `at most ${MAX_RESOURCE_BYTES} bytes of UTF-8`, name);
  }
}

/** Whether the protocol can carry this resource name. */
export function isResource(resource: unknown): resource is string {
  try {
    checkResource(resource);
    return true;
  } catch {
    return false;
  }
}

/** Checks a slot name of a checked `resource`. @throws InvalidOptionsError when the protocol can't carry it */
export function checkSlot(resource: string, slot: unknown): asserts slot is string {
  const name = checkName('slot name', slot);
  if (name.includes(':')) refuse('slot name', 'a name without ":"', name);
  if (byteLength(permitId({ resource, slot: name })) > MAX_ID_BYTES) {
    refuse('slot name', `a Workflow ID "permit:<resource>:<slot>" of at most ${MAX_ID_BYTES} bytes`, name);
  }
}

/** The server fails the task of a Workflow that signals a run whose ID is no UUID. */
export function isRunId(value: unknown): value is string {
  return typeof value === 'string' && UUID.test(value);
}

/** Checks a name. Two names that look the same must not be two pools, for each pool would have all the permits. */
function checkName(what: string, name: unknown): string {
  if (typeof name !== 'string' || name === '') refuse(what, 'a non-empty string', name);
  if (PRINTABLE_ASCII.test(name) && name.trim() === name) return name;
  if (UNPRINTABLE.test(name)) refuse(what, 'printable characters only', name);
  if (name.trim() !== name) refuse(what, 'a name without white space at either end', name);
  if (name.normalize('NFC') !== name) {
    refuse(what, `a name in Unicode's form NFC, ${JSON.stringify(name.normalize('NFC'))}`, escaped(name));
  }
  return name;
}

/** Writes `\uXXXX` for all but ASCII, since two forms of a name look the same. */
function escaped(name: string): string {
  return name.replaceAll(/[^\x20-\x7e]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

/** Compares two texts by their bytes of UTF-8, as all languages can. */
function byteOrder(a: string, b: string): number {
  const [one, other] = [new TextEncoder().encode(a), new TextEncoder().encode(b)];
  for (const [at, byte] of one.entries()) {
    const difference = byte - (other[at] ?? -1);
    if (difference !== 0) return difference;
  }
  return one.length - other.length;
}

/** Bytes of UTF-8. */
export function byteLength(text: string): number {
  // A ticket may have a thousand names, and an encoder for each would take milliseconds.
  return PRINTABLE_ASCII.test(text) ? text.length : new TextEncoder().encode(text).length;
}

/** Stands between a resource and a key in the name of the key's pool. No other resource may have it in its name. */
const MARK = '~key:';

/** Stands before a hash. No escaped key has it. */
const HASHED = '#';

const HASH_LENGTH = 64;

/** The longest name of a key's pool. Behind it there is room for a mark of its own, as behind any other resource's. */
const MAX_KEY_POOL_BYTES = MAX_RESOURCE_BYTES - 4;

/** The longest name of a resource whose keys have pools: a hash must fit behind it. */
export const MAX_KEYED_RESOURCE_BYTES = MAX_KEY_POOL_BYTES - MARK.length - HASHED.length - HASH_LENGTH;

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

/** The key that has this pool; `undefined` for any other resource, and where the name has only the key's hash. */
export function keyOfPool(resource: string): string | undefined {
  const [, escaped] = resource.split(MARK, 2);
  if (escaped === undefined || escaped.startsWith(HASHED)) return undefined;
  try {
    return decodeURIComponent(escaped);
  } catch {
    return undefined; // anybody may have chosen the name
  }
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

/** The round constants: the first 32 bits of the fractions of the cube roots of the first 64 primes. */
const ROUNDS = fractions(64, Math.cbrt);
/** The state at the start: likewise of the square roots of the first 8. */
const START = fractions(8, Math.sqrt);

/** SHA-256 (FIPS 180-4) in hexadecimal. The Workflow sandbox has no crypto of its own. For names, which are short. */
export function sha256(bytes: Uint8Array): string {
  const state = [...START];
  const blocks = padded(bytes);
  for (let at = 0; at < blocks.byteLength; at += 64) compress(state, new DataView(blocks.buffer, at, 64));
  return state.map((word) => (word >>> 0).toString(16).padStart(8, '0')).join('');
}

function padded(bytes: Uint8Array): Uint8Array {
  const blocks = new Uint8Array(Math.ceil((bytes.length + 9) / 64) * 64);
  blocks.set(bytes);
  blocks[bytes.length] = 0x80;
  new DataView(blocks.buffer).setUint32(blocks.length - 4, bytes.length * 8); // names are far below 2^32 bits
  return blocks;
}

function compress(state: number[], block: DataView): void {
  const words: number[] = [];
  const word = (index: number) => words[index] as number;
  for (let n = 0; n < 64; n++) {
    if (n < 16) words.push(block.getInt32(n * 4));
    else {
      const [a, b] = [word(n - 15), word(n - 2)];
      const [low, high] = [turn(a, 7) ^ turn(a, 18) ^ (a >>> 3), turn(b, 17) ^ turn(b, 19) ^ (b >>> 10)];
      words.push((word(n - 16) + low + word(n - 7) + high) | 0);
    }
  }
  let [a, b, c, d, e, f, g, h] = state as [number, number, number, number, number, number, number, number];
  for (let n = 0; n < 64; n++) {
    const choice = (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & f) ^ (~e & g));
    const one = (h + choice + (ROUNDS[n] as number) + word(n)) | 0;
    const two = ((turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
    [a, b, c, d, e, f, g, h] = [(one + two) | 0, a, b, c, (d + one) | 0, e, f, g];
  }
  for (const [n, sum] of [a, b, c, d, e, f, g, h].entries()) state[n] = ((state[n] as number) + sum) | 0;
}

function turn(word: number, by: number): number {
  return (word >>> by) | (word << (32 - by));
}

function fractions(count: number, root: (prime: number) => number): number[] {
  const primes: number[] = [];
  for (let n = 2; primes.length < count; n++) if (primes.every((prime) => n % prime !== 0)) primes.push(n);
  return primes.map((prime) => ((root(prime) % 1) * 2 ** 32) | 0);
}

/** Slots as the protocol writes them: a capacity (slots `"0"` to `"N-1"`), or names. A thousand tickets must be small. */
export type Slots = number | string[];

export function slotNames(slots: Slots): readonly string[] {
  return typeof slots === 'number' ? Array.from({ length: slots }, (_, index) => String(index)) : slots;
}

export function wantsSlot(slots: Slots, slot: string): boolean {
  if (typeof slots !== 'number') return slots.includes(slot);
  const index = Number(slot);
  return String(index) === slot && index >= 0 && index < slots && Number.isInteger(index);
}

/** Whether one of these slots is not among the others. */
export function hasMore(slots: Slots, others: Slots): boolean {
  if (typeof slots === 'number' && typeof others === 'number') return slots > others;
  return slotNames(slots).some((slot) => !wantsSlot(others, slot));
}

/** Whether the slot is in use: each is, where an operator has set nothing. */
export function isSlotInUse(slot: string, override: OverrideState | undefined): boolean {
  if (!override) return true;
  const { slots, capacity, paused } = override;
  if (paused) return false;
  return wantsSlot(typeof slots === 'number' ? (capacity ?? slots) : slots.slice(0, capacity), slot);
}

const SLOTS_HASH_LENGTH = 16;

/** `3`; or, of names, `3#9f86d081884c7d65`, whatever their order. Names that a capacity would give are that capacity. */
export function slotsMark(slots: Slots): SlotsMark {
  if (typeof slots === 'number') return slots;
  const names = [...slots].sort(byteOrder);
  const counted = slotNames(names.length);
  if (counted.every((name) => slots.includes(name))) return names.length;
  return `${names.length}#${sha256(new TextEncoder().encode(names.join('\n'))).slice(0, SLOTS_HASH_LENGTH)}`;
}

/** The mark in `value`; `undefined` when it is none. */
export function readSlotsMark(value: unknown): SlotsMark | undefined {
  if (typeof value === 'number') return Number.isInteger(value) && value >= 1 ? value : undefined;
  return typeof value === 'string' && /^[1-9]\d{0,3}#[0-9a-f]{16}$/.test(value) ? value : undefined;
}
