import type { FencingToken } from './fencing-token';
import { show } from './invalid-options';

/**
 * The base of every refusal by a fence. None of them heals by trying again with the same token, so inside an
 * activity `fencingActivityInterceptor` makes them non-retryable.
 */
export class FencingError extends Error {
  override readonly name: string = 'FencingError';
}

/** The text or object is not a fencing token. */
export class MalformedTokenError extends FencingError {
  override readonly name = 'MalformedTokenError';

  constructor(
    /** The value that was given. */
    readonly given: unknown,
    expected: string,
    options?: ErrorOptions,
  ) {
    super(`Not a fencing token: expected ${expected}, got ${show(given)}.`, options);
  }
}

/** Nobody handed a token along. A fence that let such a call pass would protect nothing. */
export class MissingTokenError extends FencingError {
  override readonly name = 'MissingTokenError';
}

/** The token belongs to another resource than the one this guard protects. */
export class WrongResourceError extends FencingError {
  override readonly name = 'WrongResourceError';

  constructor(
    readonly token: FencingToken,
    /** The resource that the guard protects. */
    readonly resource: string,
  ) {
    super(`This guard protects "${resource}", but the token is for "${token.resource}" (${token}).`);
  }
}

/** The run ID says nothing about time, so no order of permits can be read from it. */
export class UnorderedRunIdError extends FencingError {
  override readonly name = 'UnorderedRunIdError';

  constructor(readonly token: FencingToken) {
    super(
      `Run ID ${token.runId} is not time-ordered (a UUID of version 7), so it cannot fence. Run IDs are ordered by ` +
        'Temporal Server 1.27 or later: upgrade the server, or use TemporalFence, which needs no order.',
    );
  }
}

/**
 * The run ID is dated in the future, by more than clocks disagree. It was not drawn by a server for a permit, or a clock
 * is wrong by days. Admitted, it would make every later holder of the slot stale.
 */
export class FutureTokenError extends FencingError {
  override readonly name = 'FutureTokenError';

  constructor(
    readonly token: FencingToken,
    /** When the run ID claims to have been drawn, in epoch milliseconds. */
    readonly drawnAtMs: number,
    /** The guard's clock, in epoch milliseconds. */
    readonly nowMs: number,
  ) {
    super(
      `Run ID ${token.runId} says that it was drawn at ${iso(drawnAtMs)}, and this guard's clock says ${iso(nowMs)}. ` +
        'A permit has no such run ID: look where the token came from, or set the clock.',
    );
  }
}

function iso(epochMs: number): string {
  return new Date(epochMs).toISOString();
}

/**
 * The token's holder has lost its permit: a later permit of the slot is known, or this one has ended. Or it is an activity of the
 * present holder, and a later one, or a later attempt, is known. Stop writing.
 */
export class StaleTokenError extends FencingError {
  override readonly name = 'StaleTokenError';

  constructor(
    /** The token that was refused. */
    readonly token: FencingToken,
    /** The newest token of the slot; `undefined` when only the end of the refused one is known. */
    readonly newest: FencingToken | undefined,
  ) {
    super(
      `Stale fencing token for "${token.resource}", slot "${token.slot}": run ${token.runId} ` +
        (newest?.runId === token.runId
          ? 'has had a later activity, or a later attempt of this one, admitted.'
          : `${newest ? `was superseded by run ${newest.runId}.` : 'no longer holds the slot.'} ` +
            'Its holder has lost the permit; acquire a new one.'),
    );
  }

  /** @internal Whether a next attempt of the same activity may be admitted. */
  get passes(): boolean {
    return this.newest?.runId === this.token.runId;
  }
}
