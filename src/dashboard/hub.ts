import { messageOf } from '../client/server/errors';
import type { KeysByResource, ResourceView, SearchView, SilenceView } from './page-protocol';
import type { ResourceFinder, ResourceOperator } from './poller';
import { type Pace, Poller } from './poller';

/** The time between two looks at one resource. */
const LOOK_EVERY_MS = 1_000;

/** A look asks for each slot, so with many slots the looks are further apart: this long for each slot of all resources. */
const LOOK_EVERY_MS_PER_SLOT = 20;

/**
 * What a look asks of workers is billed on Temporal Cloud. A queue is asked at each look, if it has changed. So with many queues the
 * looks are further apart: this long for each. A permit is asked as often as this allows, in all resources; a page that was just opened
 * asks more.
 */
const LOOK_EVERY_MS_PER_QUEUE = 500;
const PERMIT_QUERIES = { perSecond: 2, atOnce: 30 };

/**
 * The time between two queries for the past holds of a resource, and how many there are in all resources: a namespace allows 10 calls a
 * second to visibility, and others need them too.
 */
const PAST_EVERY_MS = 4_000;
const PAST_QUERIES = { perSecond: 1, atOnce: 5 };

/** The time between two searches for resources, each some calls to visibility; and between two looks at a found resource that is idle. */
const FIND_EVERY_MS = 10_000;

/** A found resource stays this long after its last use, as its last holds do. */
const FORGET_AFTER_MS = 5 * 60_000;

/** A failure so long after the last answer about any resource means that Temporal is silent, and not that one resource has a problem. */
const SILENT_AFTER_MS = 5_000;

/** How long an answer of the server serves all who ask whether it answers. */
const ANSWER_SERVES_MS = 1_000;

/** The pollers run on for this long after the last page, so that a page that is loaded again finds them running. */
const LINGER_MS = 3_000;

interface Watched {
  operator: ResourceOperator;
  poller: Poller;
  /** When a search or a look last found the resource in use. Absent for a resource that the operator has named: it stays. */
  usedAtMs?: number;
  /** Whether a page shows it as a key: it stays meanwhile. */
  isShownKey: boolean;
}

const NO_KEYS: KeysByResource = {};

/** All resources, and the pages that follow them. It looks at nothing while no page is open. */
export class Hub {
  private readonly watched = new Map<string, Watched>();
  private readonly listeners = new Set<() => void>();
  /** The keys that pages show, and how many pages. */
  private readonly shown = new Map<string, number>();
  private linger: NodeJS.Timeout | undefined;
  private search: NodeJS.Timeout | undefined;
  private searches = 0;
  private searched: SearchView = { done: false };
  /** When Temporal last answered. */
  private answeredAtMs: number | undefined;
  private silent: SilenceView | undefined;
  /** What {@link isAnswered} said last. */
  private asked: { atMs: number; answered: Promise<boolean> } | undefined;
  private readonly permitQueries = new Allowance(PERMIT_QUERIES);
  private readonly pastQueries = new Allowance(PAST_QUERIES);

  /** @param finder finds more resources, which leave when they are no longer in use */
  constructor(
    operators: readonly ResourceOperator[],
    private readonly finder: ResourceFinder = { find: async () => [], forget: () => undefined },
  ) {
    for (const operator of operators) this.add(operator);
  }

  get views(): ResourceView[] {
    return [...this.watched.values()].map(({ poller }) => poller.view);
  }

  get keys(): KeysByResource {
    return this.finder.keys ?? NO_KEYS;
  }

  /** How the search for resources goes. */
  get searchView(): SearchView {
    return this.searched;
  }

  /** Absent while Temporal answers. */
  get silence(): SilenceView | undefined {
    return this.silent;
  }

  /** Whether Temporal answers, even while no page is open. Any visitor may ask for this, so an answer serves for a second. */
  async isAnswered(): Promise<boolean> {
    const atMs = Date.now();
    if (!this.asked || atMs - this.asked.atMs >= ANSWER_SERVES_MS) {
      const asking = this.finder.askServer?.() ?? Promise.resolve();
      const answered = asking.then(
        () => true,
        () => false,
      );
      this.asked = { atMs, answered };
    }
    return await this.asked.answered;
  }

  operator(resource: string): ResourceOperator | undefined {
    return this.watched.get(resource)?.operator;
  }

  /** @param changed called when there are new views @returns a function that ends the subscription */
  subscribe(changed: () => void): () => void {
    this.listeners.add(changed);
    clearTimeout(this.linger);
    if (this.listeners.size === 1) this.startAll();
    return () => {
      this.listeners.delete(changed);
      if (this.listeners.size > 0) return;
      clearTimeout(this.linger);
      this.linger = setTimeout(() => this.stopAll(), LINGER_MS).unref();
    };
  }

  /** Looks at a key too, as soon as a search has found it. @returns a function that ends this: the page no longer shows the key */
  show(key: string): () => void {
    this.shown.set(key, (this.shown.get(key) ?? 0) + 1);
    this.watchShown();
    return () => {
      const pages = (this.shown.get(key) ?? 1) - 1;
      this.shown.set(key, pages);
      if (pages > 0) return;
      this.shown.delete(key);
      const watched = this.watched.get(key);
      if (watched?.isShownKey) this.forget(key, watched);
    };
  }

  private watchShown(): void {
    for (const key of this.shown.keys()) {
      const operator = this.watched.has(key) ? undefined : this.finder.key?.(key);
      if (!operator) continue;
      this.add(operator, undefined, true).start(0);
    }
  }

  /** Looks at this resource now: an operator has just changed it. */
  look(resource: string): void {
    this.watched.get(resource)?.poller.look();
  }

  close(): void {
    clearTimeout(this.linger);
    this.stopAll();
  }

  private add(operator: ResourceOperator, usedAtMs?: number, isShownKey = false): Poller {
    const poller: Poller = new Poller(
      operator,
      () => this.pace(operator.resource),
      () => {
        const { ready, problem, asOfMs } = poller.view.head;
        if (problem !== undefined || (ready && asOfMs === undefined)) this.hear(problem);
        this.tellAll();
      },
      { mayAskPermit: () => this.permitQueries.take(), mayAskPast: () => this.pastQueries.take() },
    );
    this.watched.set(operator.resource, { operator, poller, usedAtMs, isShownKey });
    return poller;
  }

  /** @param problem why a call to Temporal has failed; `undefined` when it has answered */
  private hear(problem: string | undefined): void {
    const nowMs = Date.now();
    if (problem === undefined) {
      this.answeredAtMs = nowMs;
      this.silent = undefined;
    } else if (nowMs - (this.answeredAtMs ?? Number.NEGATIVE_INFINITY) >= SILENT_AFTER_MS) {
      this.silent = { problem, sinceMs: this.answeredAtMs };
    }
  }

  private tellAll(): void {
    for (const listener of this.listeners) listener();
  }

  /** @param turn ends when the last page closes, although a search may be under way: the next page begins another */
  private async searchOn(turn: number): Promise<void> {
    const found = await this.finder.find().catch((error: unknown) => messageOf(error)); // the next search tries again
    if (this.listeners.size === 0 || turn !== this.searches) return;
    this.searched = typeof found === 'string' ? { ...this.searched, problem: found } : { done: true };
    if (typeof found === 'string') this.hear(found);
    // A finder whose resources all have names makes no call, so that finding nothing says nothing.
    else if (found.length > 0 || this.watched.size === 0) this.hear(undefined);
    if (typeof found !== 'string') this.keep(found);
    this.watchShown();
    this.tellAll();
    this.search = setTimeout(() => void this.searchOn(turn), FIND_EVERY_MS).unref();
  }

  private keep(found: readonly ResourceOperator[]): void {
    const nowMs = Date.now();
    for (const operator of found) {
      if (!this.watched.has(operator.resource)) this.add(operator, nowMs).start(0);
    }
    const listed = new Set(found.map(({ resource }) => resource));
    for (const [resource, watched] of this.watched) {
      if (watched.usedAtMs === undefined) continue;
      const { poller, usedAtMs } = watched;
      const isIdle = !isInUse(poller.view);
      if (!isIdle || listed.has(resource)) watched.usedAtMs = nowMs;
      if (isIdle && listed.has(resource)) poller.look();
      if (nowMs - usedAtMs >= FORGET_AFTER_MS && watched.usedAtMs === usedAtMs) this.forget(resource, watched);
    }
  }

  private forget(resource: string, { poller }: Watched): void {
    poller.stop();
    this.watched.delete(resource);
    this.finder.forget(resource);
    this.tellAll();
  }

  private pace(resource: string): Pace {
    const { views } = this;
    const slots = views.reduce((sum, view) => sum + view.slots.length, 0);
    const queues = views.filter(({ head }) => head.queue !== 'none').length;
    const watched = this.watched.get(resource);
    // An idle resource is looked at rarely: the next search finds it when it is used again.
    const isIdle = watched?.usedAtMs !== undefined && watched.poller.view.head.ready && !isInUse(watched.poller.view);
    return {
      lookEveryMs: Math.max(
        isIdle ? FIND_EVERY_MS : LOOK_EVERY_MS,
        LOOK_EVERY_MS_PER_SLOT * slots,
        LOOK_EVERY_MS_PER_QUEUE * queues,
      ),
      pastEveryMs: Math.max(PAST_EVERY_MS, (1_000 / PAST_QUERIES.perSecond) * this.watched.size),
    };
  }

  private startAll(): void {
    const { size } = this.watched;
    let index = 0;
    for (const { poller } of this.watched.values()) {
      poller.start((index * LOOK_EVERY_MS) / size);
      index++;
    }
    clearTimeout(this.search);
    this.searched = { done: false };
    this.silent = undefined;
    void this.searchOn(++this.searches);
  }

  private stopAll(): void {
    clearTimeout(this.search);
    for (const { poller } of this.watched.values()) poller.stop();
  }
}

/** How many calls of a kind all resources may make together. */
class Allowance {
  private left: number;
  private atMs = Date.now();

  constructor(private readonly rate: { readonly perSecond: number; readonly atOnce: number }) {
    this.left = rate.atOnce;
  }

  /** Takes a call, if one is left. */
  take(): boolean {
    const { perSecond, atOnce } = this.rate;
    const nowMs = Date.now();
    const gained = (Math.max(0, nowMs - this.atMs) / 1_000) * perSecond;
    this.left = Math.min(atOnce, this.left + gained);
    this.atMs = nowMs;
    if (this.left < 1) return false;
    this.left--;
    return true;
  }
}

function isInUse({ head }: ResourceView): boolean {
  return head.held > 0 || head.queue !== 'none';
}
