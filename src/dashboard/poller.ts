import { messageOf } from '../client/operators';
import type { PoolView } from './page-protocol';
import type { Pool } from './pool';
import { PoolHistory } from './pool-history';
import { emptyView } from './view-diff';

/** How many past holds one query asks for. */
const PAST_HOLDS = 50;

/** When a look takes longer, the view counts as outdated. */
const SLOW_LOOK_MS = 4_000;

export interface Pace {
  lookEveryMs: number;
  /** The time between two queries for past holds, each a call to visibility. */
  pastEveryMs: number;
}

/**
 * Looks at one resource again and again while a page is open, on behalf of all pages.
 *
 *     stopped --start--> looking --done--> resting --time is up, or look()--> looking
 *        ^------------------stop-------------'
 */
export class Poller {
  /** The latest view. */
  view: PoolView;
  private readonly history = new PoolHistory();
  private running: AbortController | undefined;
  private wake: () => void = () => undefined;
  private wanted = false;
  private askPastAtMs = 0;
  private seenAtMs = 0;

  /**
   * @param pace asked before each rest
   * @param changed called when `view` has been replaced
   */
  constructor(
    private readonly pool: Pool,
    private readonly pace: () => Pace,
    private readonly changed: () => void,
  ) {
    this.view = emptyView(pool.resource);
  }

  /** @param afterMs the pause before the first look, so that the looks at many resources spread out */
  start(afterMs: number): void {
    if (this.running) return;
    this.view = this.outdated();
    this.running = new AbortController();
    void this.run(this.running.signal, afterMs);
  }

  stop(): void {
    this.running?.abort();
    this.running = undefined;
    this.wake();
  }

  /** Looks at once: an operator has just changed something. */
  look(): void {
    this.wanted = true;
    this.wake();
  }

  private async run(stopped: AbortSignal, afterMs: number): Promise<void> {
    await this.rest(afterMs);
    while (!stopped.aborted) {
      this.wanted = false;
      const slow = setTimeout(() => this.show(this.outdated()), SLOW_LOOK_MS);
      const view = await this.lookOnce();
      clearTimeout(slow);
      if (stopped.aborted) return;
      this.show(view);
      if (!this.wanted) await this.rest(this.pace().lookEveryMs);
    }
  }

  private show(view: PoolView): void {
    this.view = view;
    this.changed();
  }

  private async lookOnce(): Promise<PoolView> {
    const nowMs = Date.now();
    const recent = nowMs >= this.askPastAtMs ? PAST_HOLDS : 0;
    if (recent > 0) this.askPastAtMs = nowMs + this.pace().pastEveryMs;
    try {
      const view = this.history.look(await this.pool.inspect({ recent }), nowMs);
      this.seenAtMs = nowMs;
      return view;
    } catch (error) {
      return this.outdated(messageOf(error));
    }
  }

  /** The latest view, marked as old. The page goes on showing it, and says how old it is. */
  private outdated(problem = this.view.head.problem): PoolView {
    const { head } = this.view;
    return { ...this.view, head: { ...head, asOfMs: head.ready ? this.seenAtMs : undefined, problem } };
  }

  private async rest(ms: number): Promise<void> {
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}
