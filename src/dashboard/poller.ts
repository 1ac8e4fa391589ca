import { messageOf } from '../client/server/errors';
import type { Operator } from '../operator';
import type { KeysByResource, ResourceView } from './page-protocol';
import { ResourceHistory } from './resource-history';
import { emptyView } from './view-diff';

/** How many past holds one query asks for. */
const PAST_HOLDS = 50;

/** A query is an Action on Temporal Cloud. So a look asks a permit, or an unchanged queue, again only after this time. */
const ANSWER_SERVES_MS = 15_000;

/** When a look takes longer, the view counts as outdated. */
const SLOW_LOOK_MS = 4_000;

/** The part of an `Operator` that the dashboard needs. */
export interface ResourceOperator extends Pick<Operator, 'resource' | 'inspect'> {
  revoke(slot: string, options: { runId?: string; reason?: string }): Promise<unknown>;
  resize(capacity: number, options: { ifVersion?: number; reason?: string }): Promise<unknown>;
  pause(options: { ifVersion?: number; reason?: string }): Promise<unknown>;
  resume(options: { ifVersion?: number }): Promise<unknown>;
}

/** Finds resources that the operator has not named. */
export interface ResourceFinder {
  /**
   * The resources in use. A resource that was found before has the same operator, until {@link forget}. The hub asks now and then
   * while a page is open.
   */
  find(): Promise<readonly ResourceOperator[]>;
  /** The dashboard no longer shows this resource. */
  forget(resource: string): void;
  /** The keys that the last search found. Each search makes a new object. */
  readonly keys?: KeysByResource;
  /** One of these keys, by the name of its resource. */
  key?(resource: string): ResourceOperator | undefined;
  /** Rejects if Temporal does not answer. */
  askServer?(): Promise<unknown>;
}

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
  view: ResourceView;
  private readonly history = new ResourceHistory();
  private running: AbortController | undefined;
  private wake: () => void = () => undefined;
  private wanted = false;
  private askPastAtMs = 0;
  private seenAtMs = 0;

  /**
   * @param pace asked before each rest
   * @param changed called when `view` has been replaced
   * @param allowed asked before each query of a permit, and before each query for past holds; `false` spares the query
   */
  constructor(
    private readonly operator: ResourceOperator,
    private readonly pace: () => Pace,
    private readonly changed: () => void,
    private readonly allowed: { mayAskPermit(): boolean; mayAskPast(): boolean },
  ) {
    this.view = emptyView(operator.resource);
  }

  /** @param afterMs the pause before the first look, so that the looks at many resources spread out */
  start(afterMs: number): void {
    if (this.running) return;
    this.view = this.outdated(undefined);
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
      const slow = setTimeout(() => this.show(this.outdated(this.view.head.problem)), SLOW_LOOK_MS);
      const view = await this.lookOnce();
      clearTimeout(slow);
      if (stopped.aborted) return;
      this.show(view);
      if (!this.wanted) await this.rest(this.pace().lookEveryMs);
    }
  }

  private show(view: ResourceView): void {
    this.view = view;
    this.changed();
  }

  private async lookOnce(): Promise<ResourceView> {
    const nowMs = Date.now();
    const { mayAskPermit, mayAskPast } = this.allowed;
    const recent = nowMs >= this.askPastAtMs && mayAskPast() ? PAST_HOLDS : 0;
    if (recent > 0) this.askPastAtMs = nowMs + this.pace().pastEveryMs;
    try {
      const inspection = await this.operator.inspect({
        recent,
        search: false,
        servesMs: ANSWER_SERVES_MS,
        mayAskPermit,
      });
      const view = this.history.look(inspection, nowMs);
      this.seenAtMs = nowMs;
      return view;
    } catch (error) {
      return this.outdated(messageOf(error));
    }
  }

  /** The latest view, marked as old. The page goes on showing it, and says how old it is. */
  private outdated(problem: string | undefined): ResourceView {
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
