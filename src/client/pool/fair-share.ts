import { priorityOf } from '../../shared/priority';
import type { PoolShare } from '../../shared/protocol';

/** What a pool has seen of the queue of its resource. */
export interface Others {
  /** The tickets of other acquirers that wait without a turn. */
  readonly tickets: readonly WaitingTicket[];
  /** Whether this slot is in use, as declared or as an operator has set. */
  isInUse(slot: string): boolean;
  /** How many slots an operator has set to be in use. */
  readonly capacity?: number;
}

export interface WaitingTicket {
  readonly id: string;
  /** Absent for an acquirer of one permit. */
  readonly pool?: PoolShare;
  readonly priorityKey?: number;
}

/** The permits of the pool that looks. */
export interface Stock {
  /** How many it holds, without those that it is giving back. */
  holding: number;
  /** How many it is giving back. Waiters elsewhere will get them. */
  releasing: number;
  /** Whether all of them {@link FairShare.mayGoRound}. */
  mayGoRound: boolean;
  /** The priority of the first of the pool's own callers that wait. Infinity if none waits. */
  priorityKey: number;
}

/** A permit is nearly ripe after this part of `reuseFor`: early enough to know by its end whether others wait. */
const NEARLY = 0.8;

/** A permit may go round after this many times `reuseFor`. Each hand-over costs a slot 0.1 s or more, so permits go round slowly. */
const BEFORE_GOING_ROUND = 1 + NEARLY;

/** An answer is of no use after this many times `reuseFor`. Above 1, so that short calls never wait for the next answer. */
const STALE = 1.25;

/**
 * When a pool looks whether others wait, and how many of its permits it then gives back. Pure.
 *
 * A permit is ripe when it has been held for `reuseFor`. One look serves all permits, and there is at most one look in each
 * `reuseFor`, and one more when the queue serves the pool a permit.
 *
 * The rule is that of max-min fairness: a pool gives a permit to another pool only if the other pool then has no more than this pool had.
 * So permits move until each pool has its equal share, and then they stay. Permits that can't be divided equally go round: once a pool has
 * held all its permits for a while, it gives one to a pool that has just one permit less.
 *
 * A pool whose own callers wait gives nothing to callers of lower priority.
 *
 * All pools see the same queue, and they agree on one giver for each ticket: the pool that has most; of equals, one by lot. A
 * ticket that still waits at the next look gets one more giver, since the first may be dead or busy.
 */
export class FairShare {
  private askedMs = Number.NEGATIVE_INFINITY;
  /** When the last completed look began. */
  private knownMs = Number.NEGATIVE_INFINITY;
  private isUnderWay = false;
  private dues = 0;
  /** How often the last looks have seen each ticket. */
  private seen: ReadonlyMap<string, number> = new Map();

  constructor(
    private readonly reuseForMs: number,
    /** On the tickets of this pool. */
    private readonly poolId: string,
  ) {}

  get isLooking(): boolean {
    return this.isUnderWay;
  }

  /** When the present look, or the last one, began. */
  get lookedMs(): number {
    return this.askedMs;
  }

  isRipe(heldSinceMs: number, nowMs: number): boolean {
    return nowMs >= heldSinceMs + this.reuseForMs;
  }

  /** Whether the permit has been held for long enough to be given to a pool that has just one permit less. */
  mayGoRound(heldSinceMs: number, nowMs: number): boolean {
    return nowMs >= heldSinceMs + BEFORE_GOING_ROUND * this.reuseForMs;
  }

  /** Whether the end of a call under this permit is the time to look. */
  isLookDue(heldSinceMs: number, nowMs: number): boolean {
    if (this.isUnderWay || nowMs < this.askedMs + this.reuseForMs) return false;
    return nowMs >= heldSinceMs + NEARLY * this.reuseForMs;
  }

  /** Whether a ripe permit is to wait for the answer of the look that is under way. */
  isStale(nowMs: number): boolean {
    return nowMs > this.knownMs + STALE * this.reuseForMs;
  }

  asked(nowMs: number): void {
    this.askedMs = nowMs;
    this.isUnderWay = true;
  }

  /** @param others `undefined` if no worker has answered: then no worker can serve other waiters either, so nothing goes back */
  answered(others: Others | undefined, stock: Stock): void {
    this.isUnderWay = false;
    this.knownMs = this.askedMs;
    const tickets = others?.tickets ?? [];
    this.dues = Math.max(0, this.owedTo(tickets, stock) - stock.releasing);
    this.seen = new Map(tickets.map(({ id }) => [id, (this.seen.get(id) ?? 0) + 1]));
  }

  /** How many permits are to go back. */
  get owed(): number {
    return this.dues;
  }

  /** Counts one permit as given back; `false` if none is owed. */
  takeDue(): boolean {
    if (this.dues === 0) return false;
    this.dues--;
    return true;
  }

  private owedTo(tickets: readonly WaitingTicket[], { holding, releasing, mayGoRound, priorityKey }: Stock): number {
    const left = new Map([[this.poolId, holding + releasing]]);
    /** By pool, the priority of its first waiter. */
    const ranks = new Map([[this.poolId, priorityKey]]);
    for (const ticket of tickets) {
      const { pool } = ticket;
      if (!pool) continue;
      left.set(pool.id, Math.min(left.get(pool.id) ?? Number.POSITIVE_INFINITY, pool.nth - 1));
      ranks.set(pool.id, Math.min(ranks.get(pool.id) ?? Number.POSITIVE_INFINITY, priorityOf(ticket)));
    }
    let owed = 0;
    for (const ticket of [...tickets].sort((a, b) => priorityOf(a) - priorityOf(b) || nthOf(a) - nthOf(b))) {
      const { id, pool } = ticket;
      const nth = nthOf(ticket);
      const rank = priorityOf(ticket);
      const lot = hash(id);
      const able = [...left].filter(
        ([giver, has]) => giver !== pool?.id && has > 0 && has >= nth && rank <= (ranks.get(giver) ?? rank),
      );
      able.sort(([a, hasA], [b, hasB]) => hasB - hasA || (hash(a) ^ lot) - (hash(b) ^ lot));
      for (const [giver, has] of able.slice(0, 1 + (this.seen.get(id) ?? 0))) {
        left.set(giver, has - 1);
        if (giver === this.poolId && (has > nth || mayGoRound)) owed++;
      }
    }
    return owed;
  }
}

function nthOf({ pool }: Pick<WaitingTicket, 'pool'>): number {
  return pool?.nth ?? 0;
}

/** FNV-1a: the same in every process. */
function hash(text: string): number {
  let hash = 2_166_136_261;
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 16_777_619);
  return hash;
}
