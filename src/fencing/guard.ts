import {
  FencingToken,
  type FencingTokenSource,
  FutureTokenError,
  UnorderedRunIdError,
  WrongResourceError,
} from '../shared/fencing-token';

/** A guard's answer for a token that it admitted. */
export interface Admission {
  /** The token that was admitted. */
  readonly token: FencingToken;
}

/** The answer of a guard that remembers the newest holder of each slot. */
export interface CountedAdmission extends Admission {
  /**
   * The number of holders that this guard has admitted to the slot so far, from 1. All writes of one holder have the same
   * epoch, and each next holder has a greater one. Store it with a write, or give it to a system that fences by counters.
   */
  readonly epoch: number;
}

/**
 * A guard stands at one protected resource and admits only the newest holder of each slot. Each guard documents what else
 * it promises, and what it does not. A check that is not one step with the write leaves a gap between the two.
 */
export interface FenceGuard<A extends Admission = Admission> {
  /** The resource of the semaphore whose permits are checked. */
  readonly resource: string;
  /**
   * Admits the token of the slot's newest holder, or a newer token.
   *
   * @throws StaleTokenError for an older token; the error contains both tokens
   * @throws MalformedTokenError when it is no token
   * @throws WrongResourceError when it belongs to another resource
   * @throws UnorderedRunIdError when its run ID is not time-ordered, if the guard goes by order
   * @throws FutureTokenError when its run ID is dated more than a day ahead, if the guard goes by order
   */
  admit(token: FencingTokenSource): Promise<A>;
}

/** Reads a token and checks that it belongs to `resource`. */
export function tokenOf(resource: string, source: FencingTokenSource): FencingToken {
  const token = FencingToken.from(source);
  if (token.resource !== resource) throw new WrongResourceError(token, resource);
  return token;
}

/**
 * How far a token may be dated ahead of the guard's clock. Synchronised clocks disagree by seconds. A clock that was set to
 * local time as if it were UTC is off by up to 14 hours. A day tolerates both. A forged token can then close a slot for a
 * day, not indefinitely.
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
