import { refuse, show } from './check';
import { checkResource, checkSlot, isRunId, type PermitAddress, permitId } from './permit-id';

/** The header that carries a token, both of an activity and of an HTTP request. */
export const FENCING_TOKEN_HEADER = 'fencing-token';

/** A second header of an activity: {@link ActivityAttempt.scheduledMs}. */
export const FENCING_SCHEDULED_HEADER = 'fencing-scheduled';

/** The header of an activity that names the resources of which its Workflow holds permits around the call. */
export const HELD_HEADER = 'temporal-semaphore-held';

/** Anything that names one permit: a `Permit`, a {@link FencingToken}, or a token's text. */
export type FencingTokenSource = string | (PermitAddress & { readonly runId: string });

/** Which attempt of which activity writes under the permit. */
export interface ActivityAttempt {
  /**
   * When the Workflow scheduled the activity, by its clock in epoch milliseconds. Activities that run at the same time share the time of
   * the first of them. An activity that is scheduled after all others have ended has a greater time.
   */
  readonly scheduledMs: number;
  /** From 1. */
  readonly attempt: number;
}

const SEPARATOR = '/';
const FORM = '"<resource>/<slot>/<run ID>", percent-encoded, and for an activity "/<scheduled>.<attempt>"';
const ACTIVITY = /^(\d{1,15})\.(\d{1,9})$/;

const UUID_V7 = /^.{14}7.{4}[89ab]/;

/** The protocol's longest ID has 255 bytes, each at most three characters when encoded, a run ID has 36, and an activity 25. */
const MAX_LENGTH = 3 * 255 + 36 + 25 + 3;

/**
 * Names one permit to the resource that it protects, which can refuse the holder of an older permit. The order of two tokens is that
 * of their run IDs, and holds within one slot only: different slots may have holders at the same time. The server usually
 * gives a later permit the greater run ID, but does not guarantee this: not after a clock was set back, for example.
 *
 * The token of an activity also says which attempt it is. The tokens of one permit's activities are ordered by their scheduling, then by
 * their attempts. The token of the permit itself has no order with them.
 *
 * The idea is Chubby's "sequencer" (Burrows 2006) and Kleppmann's "fencing token" (2016), with the run ID that the server
 * draws for the permit instead of a counter.
 *
 * @example
 * ```ts
 * const token = FencingToken.from({ resource: 'gpu-pool', slot: '0', runId: '01890a5d-ac96-774b-bcce-b302099a8057' });
 * String(token); // 'gpu-pool/0/01890a5d-ac96-774b-bcce-b302099a8057'
 * FencingToken.parse(String(token)).slot; // '0'
 * ```
 */
export class FencingToken implements PermitAddress {
  private constructor(
    readonly resource: string,
    readonly slot: string,
    /** The permit's run ID, a lower-case UUID. */
    readonly runId: string,
    /** Absent for the permit itself. */
    readonly activity?: ActivityAttempt,
  ) {}

  /** The permit's Workflow ID. */
  get workflowId(): string {
    return permitId(this);
  }

  /**
   * The token of a permit, or of its text.
   * @throws MalformedTokenError when a part is missing or not one that the protocol allows
   */
  static from(source: FencingTokenSource): FencingToken {
    if (source instanceof FencingToken) return source;
    if (typeof source === 'string') return FencingToken.parse(source);
    if (typeof source !== 'object' || source === null) throw new MalformedTokenError(source, 'a permit or a string');
    return FencingToken.checked(source, source);
  }

  /**
   * Reads what {@link toString} wrote. Accepts no other form, so equal tokens have equal texts.
   * @throws MalformedTokenError
   */
  static parse(text: string): FencingToken {
    if (typeof text !== 'string') throw new MalformedTokenError(text, 'a string');
    if (text.length > MAX_LENGTH) throw new MalformedTokenError(text, `at most ${MAX_LENGTH} characters`);
    const [resource, slot, runId, activity, ...rest] = text.split(SEPARATOR);
    if (runId === undefined || rest.length > 0) throw new MalformedTokenError(text, FORM);
    const permit = FencingToken.checked(text, { resource: decode(text, resource), slot: decode(text, slot), runId });
    const [, scheduled, attempt] = ACTIVITY.exec(activity ?? '') ?? [];
    const token =
      activity === undefined ? permit : permit.of({ scheduledMs: Number(scheduled), attempt: Number(attempt) });
    if (token.toString() !== text) throw new MalformedTokenError(text, FORM);
    return token;
  }

  /** @internal The token of an activity under this permit. @throws MalformedTokenError */
  of(activity: ActivityAttempt): FencingToken {
    const { scheduledMs, attempt } = activity;
    if (!Number.isSafeInteger(scheduledMs) || scheduledMs < 0 || !Number.isSafeInteger(attempt) || attempt < 1) {
      throw new MalformedTokenError(activity, 'a time in whole milliseconds, and a number of an attempt');
    }
    return new FencingToken(this.resource, this.slot, this.runId, { scheduledMs, attempt });
  }

  /**
   * One string of printable ASCII, fit for any header: `<resource>/<slot>/<run ID>`, the names percent-encoded; of an activity,
   * `/<scheduledMs>.<attempt>` follows.
   */
  toString(): string {
    const { resource, slot, runId, activity } = this;
    const parts = [encodeURIComponent(resource), encodeURIComponent(slot), runId];
    if (activity) parts.push(`${activity.scheduledMs}.${activity.attempt}`);
    return parts.join(SEPARATOR);
  }

  /** A token in a JSON payload is its text. */
  toJSON(): string {
    return this.toString();
  }

  /** Whether the run ID is time-ordered, as of Temporal Server 1.27. */
  get ordered(): boolean {
    return UUID_V7.test(this.runId);
  }

  /** When the run ID was drawn, by the server's clock in epoch milliseconds; `undefined` when it is not time-ordered. */
  get drawnAtMs(): number | undefined {
    if (!this.ordered) return undefined;
    // A UUID of version 7 begins with 48 bits of time.
    return Number.parseInt(this.runId.slice(0, 8) + this.runId.slice(9, 13), 16);
  }

  /**
   * Negative if this permit, or its activity, is older than `other`, positive if newer, 0 if neither is older.
   * @throws InvalidOptionsError when they are of different slots, between which there is no order
   * @throws UnorderedRunIdError when a run ID is not time-ordered
   */
  compare(other: FencingToken): number {
    if (this.resource !== other.resource || this.slot !== other.slot) {
      refuse('token', `one of slot "${this.slot}" of "${this.resource}"`, other.toString());
    }
    for (const token of [this, other]) if (!token.ordered) throw new UnorderedRunIdError(token);
    // Of two UUIDs in the same case, the order of the texts is that of the numbers.
    if (this.runId !== other.runId) return this.runId < other.runId ? -1 : 1;
    const [mine, its] = [this.activity, other.activity];
    return mine && its ? mine.scheduledMs - its.scheduledMs || mine.attempt - its.attempt : 0;
  }

  /** `given` is what the caller gave, for the error. */
  private static checked(given: unknown, { resource, slot, runId }: Exclude<FencingTokenSource, string>): FencingToken {
    if (!isRunId(runId) || runId !== runId.toLowerCase()) {
      throw new MalformedTokenError(given, 'a run ID that is a UUID in lower case');
    }
    try {
      checkResource(resource);
      checkSlot(resource, slot);
    } catch (cause) {
      throw new MalformedTokenError(given, 'a resource and a slot name that the protocol allows', { cause });
    }
    return new FencingToken(resource, slot, runId);
  }
}

function decode(text: string, part: string | undefined): string {
  try {
    return decodeURIComponent(part ?? '');
  } catch (cause) {
    throw new MalformedTokenError(text, FORM, { cause });
  }
}

/**
 * The base class of every refusal by a fence. A retry with the same token can't succeed, so inside an
 * activity `fencingActivityInterceptor` makes these errors non-retryable.
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

/** The caller passed no token. A fence that let such a call pass would protect nothing. */
export class MissingTokenError extends FencingError {
  override readonly name = 'MissingTokenError';
}

/** The token belongs to another resource than the resource that this guard protects. */
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
      `Run ID ${token.runId} was generated at ${iso(drawnAtMs)} according to its timestamp, but this guard's clock shows ${iso(nowMs)}. ` +
        'No permit has such a run ID: check where the token came from, or set the clock.',
    );
  }
}

function iso(epochMs: number): string {
  return new Date(epochMs).toISOString();
}

/**
 * The token's holder has lost its permit: a later permit of the slot is known, or this permit has ended. Or the token is that of an activity
 * of the present holder, and a later activity, or a later attempt, is known. Stop writing.
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

  /** @internal Whether the next attempt of the same activity may be admitted. */
  get passes(): boolean {
    return this.newest?.runId === this.token.runId;
  }
}
