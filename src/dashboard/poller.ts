import { messageOf } from '../client/operators';
import type { PoolView } from './page-protocol';
import type { Pool } from './pool';
import { PoolHistory } from './pool-history';
import { emptyView } from './view-diff';

/** How many holds that have ended are asked for at once. */
const PAST_HOLDS = 50;

/** A look that takes longer leaves what is known behind the times. */
const SLOW_LOOK_MS = 4_000;

export interface Pace {
  lookEveryMs: number;
  /** Between two queries for what is past, each a call to visibility. */
  pastEveryMs: number;
}

/**
 * Looks at one resource every so often while it is wanted, on behalf of all connected pages.
 *
 *     stopped --start--> looking --done--> resting --time is up, or look()--> looking
 *        ^------------------stop-------------'
 */
export class Poller {
  /** What is known so far. */
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

  /** @param afterMs before the first look, so that many resources are not asked about at once */
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

  /** Somebody has just changed something: do not wait. */
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

  /** What is known, marked as what was: the page goes on showing it, and says how old it is. */
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
