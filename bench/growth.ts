import { contend } from './contend';
import { type Bench, median } from './support';

/** One point of the curves. */
export interface Point {
  curve: 'waiters' | 'slots';
  waiters: number;
  slots: number;
  /** Holds of no length, a second. */
  perSecond: number;
  /** Milliseconds, median. */
  handOffMs: number;
  eventsEach: number;
}

/** How it grows: with the waiters on ten slots, and with the slots under 300 waiters. */
export async function growth(bench: Bench): Promise<Point[]> {
  const points: Point[] = [];
  for (const waiters of [10, 30, 100, 300, 1_000]) points.push(await measure(bench, 'waiters', waiters, 10));
  for (const slots of [1, 3, 10, 30, 100]) points.push(await measure(bench, 'slots', 300, slots));
  return points;
}

async function measure(bench: Bench, curve: Point['curve'], waiters: number, slots: number): Promise<Point> {
  const load = { capacity: slots, holdMs: 0, permitQueue: bench.permitQueue };
  const { makespanMs, gapsMs, events } = await contend(bench, 'parkingConsumer', waiters, load);
  const perSecond = waiters / (makespanMs / 1_000);
  return { curve, waiters, slots, perSecond, handOffMs: median(gapsMs), eventsEach: events / waiters };
}
