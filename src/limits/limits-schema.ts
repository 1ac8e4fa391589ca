import { MAX_SLOTS } from '../shared/slots';
import { MAX_NOTE_LENGTH } from './limit';
import type { FILE_FIELDS, KEY_FIELDS, PAUSE_FIELDS, PER_KEY_FIELDS, RESOURCE_FIELDS } from './limits-file';

/** A schema for each field that the reader knows, and for no other. */
type Schemas<Names extends readonly string[]> = Record<Names[number], object>;

const COUNT = { type: 'integer', minimum: 1, maximum: MAX_SLOTS };
const NAMES = { type: 'array', items: { type: 'string', minLength: 1 }, minItems: 1, maxItems: MAX_SLOTS };
const TEXT = { type: 'string', minLength: 1, maxLength: MAX_NOTE_LENGTH };

const PAUSE: Schemas<typeof PAUSE_FIELDS> = { reason: TEXT };

const COMMON = {
  paused: {
    description:
      'With a reason: no permits are given. false: a pause without an end is ended. Absent: a pause is left alone.',
    oneOf: [{ const: false }, mapping(PAUSE, ['reason'])],
  },
  owner: { ...TEXT, description: 'Whom to ask. plan shows it.' },
  note: { ...TEXT, description: 'Why. Operators see this text with the limit.' },
};

const KEY: Schemas<typeof KEY_FIELDS> = {
  capacity: { ...COUNT, description: 'How many permits the key may have.' },
  ...COMMON,
};

const PER_KEY: Schemas<typeof PER_KEY_FIELDS> = {
  declared: {
    ...COUNT,
    description: 'What callers declare as perKey. With it, apply sets the limit of a key that is not in use yet.',
  },
  default: {
    ...COUNT,
    description: 'The limit of each key that the file does not name, within a minute after it comes into use.',
  },
  keys: {
    description:
      'The limit of each key. A key that the file does not name has the default, or else the limit that callers declare.',
    ...entries({ oneOf: [COUNT, { ...mapping(KEY), ...withOneOf(['capacity', 'paused']) }] }),
  },
};

const RESOURCE: Schemas<typeof RESOURCE_FIELDS> = {
  capacity: { ...COUNT, description: 'How many slots are in use.' },
  slots: {
    ...NAMES,
    description: 'Instead of capacity: the named slots in use, all that callers declare or the first of them.',
  },
  declared: {
    description:
      'The capacity or the slots that callers declare. With it, apply sets the limit of a resource that is not in use yet.',
    oneOf: [COUNT, NAMES],
  },
  ...COMMON,
  perKey: { ...mapping(PER_KEY), ...withOneOf(['keys', 'default']) },
};

const FILE: Schemas<typeof FILE_FIELDS> = {
  version: { type: 'integer', minimum: 1, description: 'Grows with each change of the file.' },
  resources: {
    description: 'The limits of each resource, by its name.',
    ...entries({
      ...mapping(RESOURCE),
      ...withOneOf(['capacity', 'slots', 'paused', 'perKey']),
      not: { required: ['capacity', 'slots'] },
    }),
  },
};

/** The JSON schema of a limits file, by which editors complete it. The package has it as `lib/limits.schema.json`. */
export const LIMITS_SCHEMA = {
  $schema: 'http://json-schema.org/draft-07/schema#',
  title: 'Limits of temporal-semaphore',
  ...mapping(FILE, ['version', 'resources']),
};

function mapping(properties: object, required: readonly string[] = []): object {
  return { type: 'object', additionalProperties: false, properties, required };
}

/** A mapping whose names the user chooses. */
function entries(each: object): object {
  return { type: 'object', minProperties: 1, additionalProperties: each };
}

function withOneOf(names: readonly string[]): object {
  return { anyOf: names.map((name) => ({ required: [name] })) };
}
