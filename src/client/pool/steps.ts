import { AsyncResource } from 'node:async_hooks';
import { monotonicMs } from '../clock';

/** After so many steps in a row the event loop has a turn, so that calls which do nothing keep no renewal waiting. */
const STEPS_IN_A_ROW = 100;

/** The longest that one timer of Node can be. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/** Runs steps: soon after something has happened, one for all that has happened by then; and when one is due. One timer. */
export class Steps {
  private isComing = false;
  private row = 0;
  private timer: NodeJS.Timeout | undefined;
  private timerMs = Number.POSITIVE_INFINITY;

  /** Not in the context of the caller that happened to stir it: its token, its trace and its calls' limits are its own. */
  private readonly run = AsyncResource.bind(() => this.runOne());

  /** @param step says when it is due again, on the monotonic clock */
  constructor(private readonly step: () => number) {}

  soon(): void {
    if (this.isComing) return;
    this.isComing = true;
    if (++this.row % STEPS_IN_A_ROW === 0) setImmediate(this.run);
    else queueMicrotask(this.run);
  }

  private runOne(): void {
    this.isComing = false;
    const dueMs = this.step();
    // A timer that rings too early does no harm, and setting it anew for each call would cost more.
    if (dueMs >= this.timerMs && dueMs < Number.POSITIVE_INFINITY) return;
    clearTimeout(this.timer);
    this.timerMs = dueMs;
    if (dueMs === Number.POSITIVE_INFINITY) return;
    const ring = () => {
      this.timerMs = Number.POSITIVE_INFINITY;
      this.soon();
    };
    this.timer = setTimeout(ring, Math.min(Math.max(1, Math.ceil(dueMs - monotonicMs())), MAX_TIMER_MS));
  }
}
