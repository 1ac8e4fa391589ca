import assert from 'node:assert/strict';
import { test } from 'node:test';
import { explore } from './explore';
import { type Bounds, RECHECK_MS } from './system';

/** What is explored is all that these bounds allow. Each takes seconds. */
const EXPLORED: (Bounds & { mostMs?: number })[] = [
  { slots: 1, acquirers: 2, faults: {}, delays: 1, mostMs: 1_000 },
  { slots: 1, acquirers: 2, faults: { 'stop the queue': 1 }, delays: 1, mostMs: 25 * RECHECK_MS },
  { slots: 1, acquirers: 2, faults: { 'kill an acquirer': 1, 'terminate a permit': 1 }, delays: 0 },
  { slots: 1, acquirers: 2, faults: { 'terminate the queue': 2, 'continue as new': 1 }, delays: 0 },
  { slots: 1, acquirers: 2, faults: { 'stop the queue': 1, 'terminate the queue': 1 }, delays: 0 },
  { slots: 1, acquirers: 2, faults: { 'repeat a turn': 2, 'terminate a permit': 1 }, delays: 0 },
  { slots: 1, acquirers: 3, faults: {}, delays: 0, strictOrder: true },
  { slots: 2, acquirers: 2, sizes: [2, 1], faults: {}, delays: 0, mostMs: 1_000 },
  { slots: 2, acquirers: 2, sizes: [2, 2], faults: {}, delays: 0 },
];

/** Each takes minutes: `MODEL_DEEP=1 pnpm test:slow model`. */
const DEEP: typeof EXPLORED = [
  { slots: 1, acquirers: 2, faults: {}, delays: 3 },
  {
    slots: 1,
    acquirers: 2,
    faults: { 'kill an acquirer': 1, 'cancel an acquirer': 1, 'terminate a permit': 1 },
    delays: 1,
  },
  { slots: 1, acquirers: 2, faults: { 'terminate the queue': 2, 'continue as new': 1 }, delays: 1 },
  { slots: 1, acquirers: 2, faults: { 'stop the queue': 1, 'terminate the queue': 1 }, delays: 1 },
  { slots: 1, acquirers: 2, faults: { 'repeat a turn': 2, 'terminate a permit': 1 }, delays: 1 },
  { slots: 1, acquirers: 3, faults: {}, delays: 1, strictOrder: true },
  { slots: 1, acquirers: 3, faults: { 'kill an acquirer': 1 }, delays: 0 },
  { slots: 2, acquirers: 3, faults: {}, delays: 0 },
  { slots: 2, acquirers: 2, sizes: [2, 1], faults: { 'kill an acquirer': 1 }, delays: 0 },
  { slots: 2, acquirers: 2, sizes: [2, 1], faults: { 'terminate a permit': 1 }, delays: 0 },
  { slots: 2, acquirers: 2, sizes: [2, 1], faults: { 'cancel an acquirer': 1 }, delays: 0 },
  { slots: 2, acquirers: 2, sizes: [2, 1], faults: { 'terminate the queue': 1 }, delays: 0 },
];

for (const { mostMs = Number.POSITIVE_INFINITY, ...bounds } of [...EXPLORED, ...(process.env.MODEL_DEEP ? DEEP : [])]) {
  const { slots, acquirers, sizes, faults, delays, strictOrder } = bounds;
  const often = [...Object.entries(faults), ['a late message', delays]].map(([what, times]) => `${what} x ${times}`);
  test(`${slots} slots, ${acquirers} acquirers${sizes ? ` of ${sizes}` : ''}${strictOrder ? ' in strict order' : ''}, ${often.join(', ')}`, async (t) => {
    const { states, steps, longestMs } = await explore(bounds);
    t.diagnostic(`${states} states, ${steps} steps, at most ${longestMs / 1000} s to serve everyone`);
    assert.ok(longestMs <= mostMs, `${longestMs} ms`);
  });
}
