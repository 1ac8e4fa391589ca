import { FutureTokenError, UnorderedRunIdError, WrongResourceError } from '../shared/fencing-errors';
import { FencingToken, type FencingTokenSource } from '../shared/fencing-token';

/** What a guard says of a token that it let pass. */
export interface Admission {
  readonly token: FencingToken;
}

/** An admission by a guard that remembers. */
export interface CountedAdmission extends Admission {
  /**
   * Counts the holders that this guard has admitted to the slot, from 1: the same for all writes of one holder, greater
   * for each next one. A small number to store beside a write, or to give to a system that fences by counters.
   */
  readonly epoch: number;
}

/**
 * Stands at one protected resource and lets only the newest holder of each slot pass. What it promises beyond that, and
 * what not, is for each guard to say: a check that is not one step with the write leaves a gap between the two.
 */
export interface FenceGuard<A extends Admission = Admission> {
  /** The resource of the semaphore whose permits are checked. */
  readonly resource: string;
  /**
   * Lets the token of the slot's newest holder pass, or a newer one.
   *
   * @throws StaleTokenError for an older one, with both tokens
   * @throws MalformedTokenError when it is no token
   * @throws WrongResourceError when it belongs to another resource
   * @throws UnorderedRunIdError when its run ID is not time-ordered, if the guard goes by order
   * @throws FutureTokenError when its run ID is dated more than a day ahead, if the guard goes by order
   */
  admit(token: FencingTokenSource): Promise<A>;
}

/** Reads a token that should be one of `resource`. */
export function tokenOf(resource: string, source: FencingTokenSource): FencingToken {
  const token = FencingToken.from(source);
  if (token.resource !== resource) throw new WrongResourceError(token, resource);
  return token;
}

/**
 * How far a token may be dated ahead of the guard's clock. Clocks that are kept disagree by seconds, and one that was set
 * to local time as if it were UTC by 14 hours: a day lets all of those work. A forged token can then close a slot for a
 * day, not for ever.
 */
const MAX_AHEAD_MS = 24 * 3_600_000;

/** As {@link tokenOf}, for a guard that goes by the order of run IDs. `nowMs` is the guard's clock in epoch milliseconds. */
export function orderedTokenOf(resource: string, source: FencingTokenSource, nowMs = Date.now()): FencingToken {
  const token = tokenOf(resource, source);
  const { drawnAtMs } = token;
  if (drawnAtMs === undefined) throw new UnorderedRunIdError(token);
  if (drawnAtMs > nowMs + MAX_AHEAD_MS) throw new FutureTokenError(token, drawnAtMs, nowMs);
  return token;
}
