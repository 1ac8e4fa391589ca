import { type Document, isAlias, isMap, isScalar, LineCounter, type Node, type Pair, parseAllDocuments } from 'yaml';
import {
  type Check,
  InvalidOptionsError,
  nonEmpty,
  refuse,
  refuseUnknown,
  textWithin,
  wholeFrom,
} from '../shared/check';
import { checkNotDerived } from '../shared/key-names';
import { checkKey, checkPerKey, resolveSlots } from '../shared/options';
import { checkResource } from '../shared/permit-id';
import { MAX_SLOTS, type Slots, slotNames } from '../shared/slots';
import { isFirstOf, type Limit, type LimitsFile, MAX_NOTE_LENGTH, wantedCount } from './limit';

// Reads a limits file. All that is wrong is told at once, each with its line and column, before anything goes to the server. The limits of
// names and numbers are those of the options that callers give.

/** The names of the fields. The JSON schema has the same. */
export const FILE_FIELDS = ['version', 'resources'] as const;
const POOL_FIELDS = ['capacity', 'slots', 'declared', 'paused', 'owner', 'note'] as const;
export const RESOURCE_FIELDS = [...POOL_FIELDS, 'perKey'] as const;
export const PER_KEY_FIELDS = ['declared', 'default', 'keys'] as const;
export const KEY_FIELDS = ['capacity', 'paused', 'owner', 'note'] as const;
export const PAUSE_FIELDS = ['reason'] as const;

/**
 * @param name of the file, for messages
 * @throws InvalidOptionsError that names each mistake
 */
export function readLimitsFile(text: string, name: string): LimitsFile {
  return new Reader(text, name).read();
}

/** Something in the file: its node, or the node of its name where it has none. */
interface Place {
  readonly node: Node | null;
  readonly offset: number;
}

interface Mistake {
  readonly offset: number;
  readonly message: string;
}

/** A mapping's fields by name, with the place of the value of each. */
type Fields<Name extends string> = { readonly [Field in Name]?: Place };

class Reader {
  private readonly lines = new LineCounter();
  private readonly mistakes: Mistake[] = [];
  private readonly limits: Limit[] = [];
  private readonly keyDefaults: Limit[] = [];
  private document: Document.Parsed | undefined;

  constructor(
    private readonly text: string,
    private readonly name: string,
  ) {}

  read(): LimitsFile {
    const root = this.parse();
    const version = root && this.file(root);
    if (version === undefined || this.mistakes.length > 0) throw this.error();
    const { limits, keyDefaults } = this;
    return { version, limits, ...(keyDefaults.length > 0 && { keyDefaults }) };
  }

  private parse(): Place | undefined {
    const documents = parseAllDocuments(this.text, { lineCounter: this.lines, prettyErrors: false });
    const [document, second] = 'empty' in documents ? [] : documents;
    if (!document) {
      this.add(0, 'expected "version" and "resources", got an empty file');
      return undefined;
    }
    if (second) this.add(second.range[0], 'expected one document, got a second');
    for (const { pos, message } of [...document.errors, ...document.warnings]) this.add(pos[0], message);
    this.document = document;
    return this.mistakes.length > 0 ? undefined : { node: document.contents, offset: 0 };
  }

  private file(root: Place): number | undefined {
    const { version, resources } = this.fields(root, 'the file', FILE_FIELDS);
    for (const [name, place] of Object.entries({ version, resources })) {
      if (!place) this.add(root.offset, `expected "${name}"`);
    }
    if (resources) {
      for (const { name, at, value } of this.entries(resources, 'resources', 'a resource')) {
        const isSound = this.sound(at, () => {
          checkResource(name);
          checkNotDerived(name);
        });
        if (isSound) this.resource(name, at, value);
      }
    }
    return version && this.value(version, 'version', wholeFrom(1));
  }

  private resource(resource: string, at: Place, place: Place): void {
    const { perKey, ...fields } = this.fields(place, resource, RESOURCE_FIELDS);
    const limit = this.pool(resource, fields);
    if (isMap(this.resolved(place)) && this.isEmpty({ ...fields, perKey }))
      this.add(at.offset, `${resource}: ${NOTHING_TO_DO}`);
    this.sound(at, () => checkTogether(limit));
    if (limit.capacity !== undefined || limit.slots || limit.paused !== undefined) this.limits.push(limit);
    if (perKey) this.keys(resource, perKey);
  }

  private keys(resource: string, place: Place): void {
    const { declared, default: others, keys } = this.fields(place, 'perKey', PER_KEY_FIELDS);
    this.sound(place, () => checkPerKey(resource, 1));
    const count = wholeFrom(1, MAX_SLOTS);
    const declares = declared && this.value(declared, 'perKey.declared', count);
    if (!keys && !others) this.add(place.offset, 'perKey: expected "keys", such as { acme: 5 }, or "default"');
    const ofOthers = others && this.value(others, 'perKey.default', count);
    if (ofOthers !== undefined)
      this.keyDefaults.push({ resource, ...present({ capacity: ofOthers, declared: declares }) });
    for (const { name: key, at, value } of keys ? this.entries(keys, 'perKey.keys', 'a key') : []) {
      if (!this.sound(at, () => checkKey(key))) continue;
      const isNumber = !isMap(this.resolved(value));
      const fields = isNumber ? { capacity: value } : this.fields(value, key, KEY_FIELDS);
      if (this.isEmpty(fields)) this.add(at.offset, `${key}: ${NOTHING_TO_DO}`);
      const { capacity, ...rest } = fields;
      const limit = this.pool(resource, rest);
      const wanted = capacity && this.value(capacity, isNumber ? key : 'capacity', count);
      this.limits.push({ ...limit, key, ...present({ capacity: wanted, declared: declares }) });
    }
  }

  private isEmpty({ capacity, slots, paused, perKey }: Fields<(typeof RESOURCE_FIELDS)[number]>): boolean {
    return !(capacity || slots || paused || perKey);
  }

  /** What a resource and a key have in common. */
  private pool(resource: string, fields: Fields<(typeof POOL_FIELDS)[number]>): Limit {
    const { capacity, slots, declared, paused, owner, note } = fields;
    const shortText: Check<string> = (value, what) => nonEmpty(textWithin(MAX_NOTE_LENGTH)(value, what), what);
    const slotsOf: Check<Slots> = (value, what) => {
      if (!Array.isArray(value)) return countOf(value, what);
      return [...resolveSlots(resource, { slots: value })];
    };
    const countOf: Check<number> = (value, what) => {
      const count = wholeFrom(1, MAX_SLOTS)(value, what);
      resolveSlots(resource, { capacity: count });
      return count;
    };
    const pause = (place: Place): Limit['paused'] => {
      const node = this.resolved(place);
      if (isScalar(node) && node.value === false) return false;
      if (!isMap(node)) return this.value(place, 'paused', (value, what) => refuse(what, PAUSE, value));
      const { reason } = this.fields(place, 'paused', PAUSE_FIELDS);
      if (!reason) this.add(place.offset, `paused: expected ${PAUSE}`);
      const said = reason && this.value(reason, 'paused.reason', shortText);
      return said === undefined ? undefined : { reason: said };
    };
    return {
      resource,
      ...present({
        capacity: capacity && this.value(capacity, 'capacity', countOf),
        slots: slots && this.value(slots, 'slots', (value) => resolveSlots(resource, { slots: value as string[] })),
        declared: declared && this.value(declared, 'declared', slotsOf),
        paused: paused && pause(paused),
        owner: owner && this.value(owner, 'owner', shortText),
        note: note && this.value(note, 'note', shortText),
      }),
    };
  }

  /** The fields of a mapping. An unknown name is a mistake, for a misspelled field would do nothing. */
  private fields<Name extends string>(place: Place, what: string, names: readonly Name[]): Fields<Name> {
    const found: { [Field in Name]?: Place } = {};
    for (const { name, at, value } of this.pairs(place, what, `a mapping of ${names.join(', ')}`)) {
      if (this.sound(at, () => names.includes(name as Name) || refuseUnknown(name, names))) {
        found[name as Name] = value;
      }
    }
    return found;
  }

  /** The entries of a mapping whose names the user chooses. */
  private entries(place: Place, what: string, each: string) {
    const entries = this.pairs(place, what, `a mapping with an entry for ${each}`);
    const { items } = this.resolved(place) as { items?: unknown[] };
    if (items?.length === 0) this.add(place.offset, `${what}: expected an entry for ${each}, got none`);
    return entries;
  }

  private pairs(place: Place, what: string, expected: string): { name: string; at: Place; value: Place }[] {
    const node = this.resolved(place);
    if (!isMap(node)) {
      this.value(place, what, (value) => refuse(what, expected, value));
      return [];
    }
    return node.items.flatMap((pair) => {
      const { key, value } = pair as Pair<Node, Node | null>;
      const at = { node: key, offset: offsetOf(key) ?? place.offset };
      const name = this.resolved(at);
      if (isScalar(name) && typeof name.value === 'string') {
        return [{ name: name.value, at, value: { node: value, offset: offsetOf(value) ?? at.offset } }];
      }
      this.value(at, 'name', (value) => refuse(what, 'names that are texts (put it in quotes)', value));
      return [];
    });
  }

  /** The node itself, where an alias (`*name`) stands for it. */
  private resolved({ node }: Place): Node | null | undefined {
    return isAlias(node) && this.document ? node.resolve(this.document) : node;
  }

  private value<T>(place: Place, what: string, check: Check<T>): T | undefined {
    let checked: T | undefined;
    this.sound(place, () => {
      const { document } = this;
      checked = check(document && place.node ? place.node.toJS(document) : null, what);
    });
    return checked;
  }

  /** Whether a check passes. Its error is a mistake at this place. */
  private sound({ offset }: Place, check: () => unknown): boolean {
    try {
      check();
      return true;
    } catch (error) {
      // The library's own error says that aliases of aliases are too many.
      if (!(error instanceof InvalidOptionsError || error instanceof ReferenceError)) throw error;
      this.add(offset, error.message);
      return false;
    }
  }

  private add(offset: number, message: string): void {
    this.mistakes.push({ offset, message });
  }

  private error(): InvalidOptionsError {
    const lines = [...this.mistakes]
      .sort((a, b) => a.offset - b.offset)
      .map(({ offset, message }) => {
        const { line, col } = this.lines.linePos(offset);
        return `${this.name}:${Math.max(1, line)}:${Math.max(1, col)}: ${message}`;
      });
    const count = lines.length === 1 ? 'a mistake' : `${lines.length} mistakes`;
    return new InvalidOptionsError([`The limits file has ${count}:`, ...lines].join('\n'));
  }
}

const NOTHING_TO_DO = 'expected a limit, such as capacity: 5, or paused';

const PAUSE = 'false, or a mapping such as { reason: maintenance }';

/** Refuses fields that contradict each other. @throws InvalidOptionsError */
function checkTogether(limit: Limit): void {
  const { resource, capacity, slots, declared } = limit;
  if (capacity !== undefined && slots) resolveSlots(resource, { capacity, slots });
  if (declared === undefined) return;
  const names = slotNames(declared);
  if (slots && !isFirstOf(slots, names))
    refuse('slots', 'the first of those that callers declare', { slots, declared });
  const wanted = wantedCount(limit);
  if (typeof declared !== 'number' && wanted !== undefined && wanted > names.length) {
    refuse('capacity', `at most ${names.length} (named slots can't grow)`, wanted);
  }
}

/** Where the node begins in the text. */
function offsetOf(node: Node | null): number | undefined {
  return node?.range?.[0];
}

/** Without what is absent, so that two limits can be compared. */
function present<T extends object>(fields: T): { [Name in keyof T]?: Exclude<T[Name], undefined> } {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as T;
}
