import { randomUUID } from 'node:crypto';
import { json, nested, type RawPayload, UNCONVERTIBLE } from './strangers';

// What anyone in the namespace can send: other versions, other languages, other codecs, and mistakes. The readers refuse it
// (`src/shared/wire-input.test.ts`), and the Workflows outlive it (`test/workflows/permit/hostile-input.slow.test.ts`, `test/workflows/queue/hostile-turns.test.ts`).

export const NO_OBJECTS = [null, 5, 'x', true, [], {}];

const ghost = () => ({ workflowId: `ghost-${randomUUID()}`, runId: randomUUID() });
export const soundTicket = (fields: object = {}) => ({
  id: randomUUID(),
  waiter: ghost(),
  slots: 1,
  sinceMs: 1,
  ...fields,
});
export const soundAnswer = (fields: object = {}) => ({
  slot: '0',
  runId: randomUUID(),
  graceMs: 5,
  priorityKey: 5,
  ...fields,
});
/** A ticket as JSON text, with a field that JavaScript can't write. */
const ticketWith = (field: string, text: string): RawPayload =>
  json(`${JSON.stringify({ ...soundTicket(), [field]: undefined }).slice(0, -1)},${JSON.stringify(field)}:${text}}`);
export const names = (prefix: string, count: number, length = 0) =>
  Array.from({ length: count }, (_, n) => `${prefix}${n}`.padEnd(length, 'x'));

/** One message for each value of each field, and sound otherwise. */
const each = (sound: (fields: object) => object, fields: Record<string, unknown[]>) =>
  Object.entries(fields).flatMap(([field, values]) => values.map((value) => sound({ [field]: value })));

export const BAD_TICKETS: unknown[] = [
  ...each(soundTicket, {
    id: ['', 5, 'i'.repeat(20_000), null],
    waiter: [
      null,
      'x',
      { workflowId: '' },
      { workflowId: 'w'.repeat(1_001), runId: randomUUID() },
      { workflowId: '\ud800' },
      { workflowId: 'ghost', runId: 'no UUID' },
      { workflowId: 'ghost', runId: '' },
      { workflowId: 'ghost', runId: null },
    ],
    slots: [0, -1, 1_001, 1.5, '3', null, [], ['0', '0'], ['a:b'], [''], [null], ['\n'], ['\u202e'], ['x'.repeat(255)]],
    sinceMs: [-1e308, 1e308, '5', null, 8.64e15 + 1],
    maxWaiting: [-1, 1.5, '1', {}, true],
    priorityKey: [-1_000, -1e9, 'x', {}, [], 1e308, 2.5, true, '__proto__', UNCONVERTIBLE, '\u001b[31m'],
    fairnessKey: [5, {}, 'k'.repeat(10_000), UNCONVERTIBLE],
    fairnessWeight: [-5, 'abc', 'heavy', [], [1, 2], UNCONVERTIBLE],
    identity: [5, {}, 'i'.repeat(50_000)],
  }),
  ...['sinceMs', 'priorityKey', 'fairnessWeight'].map((field) => ticketWith(field, '1e400')),
  ticketWith('priorityKey', '-1e400'),
  ticketWith('identity', nested(20_000)),
];

/** Tickets of waiters that do not exist. A queue takes them, and leaves out what it does not know. */
export const ODD_TICKETS: unknown[] = [
  ...each(soundTicket, {
    id: ['__proto__', '\n\u001b[31m'],
    waiter: [
      { workflowId: 'a\u0000b', runId: randomUUID() },
      { workflowId: 'ghost', runId: randomUUID().toUpperCase() },
    ],
    fairnessKey: ['__proto__', 'constructor', '\ud800'],
    fairnessWeight: [1e308, 1e-308],
    answer: ['x', {}],
    whenFull: ['x', {}, 'refuse'],
  }),
  ticketWith('junk', nested(20_000)),
];

export const BAD_MISSED: unknown[] = [
  { ticket: 5, slot: '0' },
  { ticket: soundTicket(), slot: {} },
  { ticket: soundTicket(), slot: 's'.repeat(256) },
];
export const BAD_DECLINED: unknown[] = [{ ticketId: {} }, json(`{"ticketId":${nested(20_000)}}`)];
export const BAD_CLOSINGS: unknown[] = [
  { slot: '', runId: randomUUID() },
  { slot: 's'.repeat(256), runId: randomUUID() },
  { slot: '0', runId: 'x' },
  { slot: 5, runId: 5 },
  { slot: '0', runId: 'x'.repeat(100_000) },
];
export const BAD_ANSWERS: unknown[] = [
  { slot: '0' },
  ...each(soundAnswer, {
    slot: ['', {}, 's'.repeat(256)],
    runId: ['x'],
    graceMs: [0, -1, 'x', 1e300],
    priorityKey: [0, -1, 'x', 1.5],
  }),
];
export const BAD_ORDERS: unknown[] = [
  { slots: 1 },
  { slots: 1, capacity: 0 },
  { slots: 1, capacity: 1e9 },
  { slots: 1, capacity: '1' },
  { slots: ['a'], capacity: 2 },
  { slots: 1, paused: 'x' },
  { slots: 1, paused: true, ifVersion: -1 },
  { slots: 1, paused: true, reason: 5 },
  { slots: 1, paused: true, reason: 'r'.repeat(50_000) },
  { slots: 1, pauseUntilMs: '5' },
  { slots: 1, pauseUntilMs: 1.5 },
  { slots: 1, pauseUntilMs: 9e15 },
  { slots: 1, pauseUntilMs: null },
  { slots: 1, pauseUntilMs: 4e12, paused: true },
  { slots: 1, pauseUntilMs: 4e12, capacity: 2 },
];

/** None of them has a text that a holder can have. */
export const BAD_HOLDERS: unknown[] = [
  ...NO_OBJECTS,
  { workflowId: 5 },
  { workflowId: {}, runId: 5 },
  { workflowId: '\ud800' },
  { workflowId: 'w'.repeat(1_001), runId: 'no' },
  { identity: 'i'.repeat(1_900_000) },
];
export const BAD_LEASES = [0, -1, '5', 1e12, 1e300, Number.NaN, Number.POSITIVE_INFINITY, null, {}];
export const BAD_REASONS = [{}, 5, ''];

/** Each is made of a sound turn's queue and ticket. Its waiter may not claim the slot. */
export type ForgedTurn = (turn: { queueId: string; ticketId: string }) => unknown;

export const BAD_TURNS: Record<string, ForgedTurn> = {
  'an empty queue': (turn) => ({ ...turn, queueId: '', slot: '0' }),
  'a queue that is none': (turn) => ({ ...turn, queueId: 'train-7', slot: '0' }),
  'a queue that is an object': (turn) => ({ ...turn, queueId: {}, slot: '0' }),
  'no queue': ({ ticketId }) => ({ ticketId, slot: '0' }),
  'an unknown ticket, an endless queue': () => ({
    ticketId: 'x',
    queueId: `permit-queue:${'w'.repeat(1_000)}`,
    slot: '0',
  }),
  'an unknown ticket, a queue with a lone surrogate': () => ({
    ticketId: 'x',
    queueId: 'permit-queue:\ud800',
    slot: '0',
  }),
  'an unknown ticket that is an object': ({ queueId }) => ({ queueId, ticketId: { a: 1 }, slot: '0' }),
  'a ticket without an ID': (turn) => ({ ...turn, ticketId: '' }),
  'an endless ticket': (turn) => ({ ...turn, ticketId: 't'.repeat(101) }),
  'a slot that is an object': (turn) => ({ ...turn, slot: {} }),
  'a slot that is no primitive': (turn) => ({ ...turn, slot: UNCONVERTIBLE }),
  'an empty slot': (turn) => ({ ...turn, slot: '' }),
  'a slot of 2,000 bytes': (turn) => ({ ...turn, slot: 's'.repeat(2_000) }),
  // Each byte comes back as three, where a waiter declines what it does not know.
  'an unknown ticket, a slot of 800,000 bytes that are no UTF-8': ({ queueId }) => {
    const [before, after] = JSON.stringify({ ticketId: 'x', queueId, slot: '|' }).split('|') as [string, string];
    return json(Buffer.concat([Buffer.from(before), Buffer.alloc(800_000, 0xff), Buffer.from(after)]));
  },
  'a slot that is null': (turn) => ({ ...turn, slot: null }),
  'a slot that is a number': (turn) => ({ ...turn, slot: 7 }),
  ...Object.fromEntries(NO_OBJECTS.map((value) => [`in its place ${JSON.stringify(value)}`, () => value])),
};
/** For a waiter of capacity 1. */
export const NO_COUNTED_SLOTS: Record<string, ForgedTurn> = {
  'a slot above the capacity': (turn) => ({ ...turn, slot: '7' }),
  'a slot below 0': (turn) => ({ ...turn, slot: '-1' }),
  'a slot in another form': (turn) => ({ ...turn, slot: '00' }),
  'a slot with a line break': (turn) => ({ ...turn, slot: 'a\nb' }),
  'a slot of another pool': (turn) => ({ ...turn, slot: 'a:b' }),
  'a slot with a lone surrogate': (turn) => ({ ...turn, slot: '\ud800' }),
  'a capacity that does not reach its slot': (turn) => ({ ...turn, slot: '7', capacity: 7 }),
  'a capacity that is none': (turn) => ({ ...turn, slot: '7', capacity: '9' }),
};
/** For a waiter of the slot gpu-a. */
export const NO_NAMED_SLOTS: Record<string, ForgedTurn> = {
  'a name that the pool does not have': (turn) => ({ ...turn, slot: 'gpu-zzz' }),
  'a name that the pool does not have, with a capacity': (turn) => ({ ...turn, slot: '0', capacity: 5 }),
  'a name of every object': (turn) => ({ ...turn, slot: '__proto__' }),
};
/** Turns for slots that the waiter may have, and does not get by them. */
export const FORGED_TURNS: Record<string, ForgedTurn> = {
  'the slot that is held': (turn) => ({ ...turn, slot: '0' }),
  'another queue': (turn) => ({ ...turn, queueId: 'permit-queue:other', slot: '0' }),
};
