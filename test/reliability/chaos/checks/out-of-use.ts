import { isKeyResource, wholeOf } from '@/shared/key-names';
import { slotNames } from '@/shared/slots';
import type { ChaosRecord, Order, Pool } from '../record';
import { type Interval, union } from './intervals';

/** What an operator has set. */
interface Setting {
  /** Absent: as deployed. */
  capacity?: number;
  /** 0: not paused. */
  pausedToMs: number;
}

/** From one moment to the next, what may be set: several while an order is under way, or has failed. */
interface Span {
  fromMs: number;
  toMs: number;
  settings: readonly Setting[];
}

/** When a slot is out of use by the orders: for certain, and possibly. */
export interface OutOfUse {
  surely: Interval[];
  maybe: Interval[];
}

/** So soon after the answer of an order, the turns that the queue gave before it are over, and it has claimed what is free. */
export const CLAIMED_MS = 8_000;

/** A timer of the server may be late. */
const LATE_MS = 1_500;

const NOTHING: Setting = { pausedToMs: 0 };

/** The pool of this name; the permits of a key are one. */
export function poolNamed(resource: string, { pools }: ChaosRecord): Pool | undefined {
  const pool = pools.find((it) => it.resource === wholeOf(resource));
  if (!isKeyResource(resource)) return pool;
  return pool?.perKey === undefined ? undefined : { resource, slots: pool.perKey };
}

/** When a slot of a pool is out of use. */
export function outOfUse(pool: Pool, record: ChaosRecord, slot: string): OutOfUse {
  const spans = settingsOf(pool, record);
  const where = (isOut: (span: Span) => boolean) =>
    union(spans.filter(isOut).map(({ fromMs, toMs }) => [fromMs, toMs]));
  return {
    surely: where(({ toMs, settings }) => settings.every((setting) => isOut(setting, pool, slot, toMs))),
    maybe: where(({ fromMs, settings }) =>
      settings.some((setting) => isOut(setting, pool, slot, fromMs - LATE_MS + 1)),
    ),
  };
}

/** @param toMs a pause that ends earlier does not count */
function isOut({ capacity, pausedToMs }: Setting, { slots }: Pool, slot: string, toMs: number): boolean {
  if (pausedToMs > 0 && pausedToMs >= toMs) return true;
  const inUse = typeof slots === 'number' ? slotNames(capacity ?? slots) : slots.slice(0, capacity);
  return !inUse.includes(slot);
}

const known = new WeakMap<Order[], Map<string, Span[]>>();

/** What may have been set at each moment of a run, by the orders alone. */
export function settingsOf({ resource }: Pool, { orders }: ChaosRecord): Span[] {
  const all = known.get(orders) ?? new Map<string, Span[]>();
  known.set(orders, all);
  const found =
    all.get(resource) ?? spans(orders.filter((order) => order.resource === resource && order.kind !== 'revoke'));
  all.set(resource, found);
  return found;
}

/** One of the ways in which things may have gone so far. */
interface Course extends Setting {
  /** The orders under way that have been carried out. */
  done: readonly Order[];
}

function spans(orders: readonly Order[]): Span[] {
  const moments = orders.flatMap((order) => [
    { atMs: order.sentMs, order, isAnswer: false },
    ...(order.answeredMs === undefined ? [] : [{ atMs: order.answeredMs, order, isAnswer: true }]),
    // A pause ends in between.
    ...(order.untilMs === undefined
      ? []
      : [order.untilMs, order.untilMs + LATE_MS].map((atMs) => ({ atMs, order: undefined, isAnswer: false }))),
  ]);
  const result: Span[] = [];
  const underWay = new Set<Order>();
  let courses: readonly Course[] = [{ ...NOTHING, done: [] }];
  let fromMs = 0;
  for (const { atMs, order, isAnswer } of moments.sort((a, b) => a.atMs - b.atMs)) {
    if (atMs > fromMs) result.push({ fromMs, toMs: atMs, settings: courses });
    fromMs = atMs;
    if (!order) continue;
    if (isAnswer) {
      underWay.delete(order);
      // One that failed before this one was sent is not carried out after it.
      for (const other of underWay)
        if (other.answeredMs === undefined && other.sentMs < order.sentMs) underWay.delete(other);
      // Whatever was under way with it may have been carried out before it, or after it.
      const possible = courses.filter(({ done }) => done.includes(order));
      courses = distinct(possible.map((it) => ({ ...it, done: it.done.filter((other) => underWay.has(other)) })));
    } else {
      underWay.add(order);
      courses = closure(courses, underWay);
    }
  }
  result.push({ fromMs, toMs: Number.POSITIVE_INFINITY, settings: courses });
  return result;
}

/** The courses with any of these orders carried out, in any order: again too, for the client sends one that has no answer again. */
function closure(courses: readonly Course[], underWay: ReadonlySet<Order>): readonly Course[] {
  let all = distinct(courses);
  for (;;) {
    const further = [...underWay].flatMap((order) =>
      all.map((it) => ({ ...after(it, order), done: [...it.done.filter((other) => other !== order), order] })),
    );
    const next = distinct([...all, ...further]);
    if (next.length === all.length) return all;
    all = next;
  }
}

function after(setting: Setting, { kind, capacity, untilMs = Number.POSITIVE_INFINITY }: Order): Setting {
  if (kind === 'resize') return { ...setting, capacity };
  // A pause with an end shortens no other.
  if (kind === 'pause') return { ...setting, pausedToMs: Math.max(setting.pausedToMs, untilMs) };
  return kind === 'resume' ? { ...setting, pausedToMs: 0 } : NOTHING;
}

function distinct(courses: readonly Course[]): Course[] {
  const keyOf = ({ capacity, pausedToMs, done }: Course) =>
    [capacity, pausedToMs, ...done.map(({ kind, sentMs }) => `${kind} ${sentMs}`).sort()].join();
  return [...new Map(courses.map((course) => [keyOf(course), course])).values()];
}
