import type { SlotsMark, Turn } from './protocol';
import { RecheckDelay } from './recheck-delay';
import { shuffle } from './shuffle';
import { MAX_SLOTS, type Slots, wantsSlot } from './slots';

/** In strict order, how long an acquirer that does not wait gives the queue to offer it a slot for which no other acquirer waits. */
const TURN_WITHIN_MS = 1_000;

/** A turn that names a slot that this acquirer may claim. */
export interface Offer {
  readonly slot: string;
  readonly queueId: string;
  /** As in the turn. */
  readonly capacity?: number;
  /** As in the turn. */
  readonly others?: SlotsMark;
}

/**
 * Whether a waiter with these slots may claim the slot of this turn: one of its own slots or, if they are numbered, a slot that an
 * operator has added, up to the capacity that the turn states.
 */
export function offersSlot({ slot, capacity = 0 }: Turn, slots: Slots): boolean {
  if (slot === undefined) return false;
  return wantsSlot(slots, slot) || (typeof slots === 'number' && wantsSlot(Math.min(capacity, MAX_SLOTS), slot));
}

/** The offer in a turn, for a waiter with these slots. `undefined`: the turn names no slot that the waiter may claim. */
export function offerOf(turn: Turn, slots: Slots): Offer | undefined {
  const { slot, queueId, capacity, others } = turn;
  return slot !== undefined && offersSlot(turn, slots) ? { slot, queueId, capacity, others } : undefined;
}

/** The message in a turn without a slot, which denies the waiter a place. */
export function fullOf({ superseded }: Turn): LineMessage {
  return superseded ? 'superseded' : 'full';
}

/**
 * The messages to an acquirer in the queue:
 * - an offer: its turn;
 * - `waiting`: the sign of life that the acquirer asked for; the queue has its ticket;
 * - `full`: the queue is alive, and has no room for the acquirer;
 * - `superseded`: the queue has given the acquirer's place to a later acquirer;
 * - `give-way`: a waiter of higher priority wants the permit that admits the acquirer to this queue;
 * - `refused`: the queue takes no messages for now, so it has not got the ticket;
 * - `stuck`: the Workflow that waits on the acquirer's behalf has found that the queue does not answer.
 */
export type LineMessage = Offer | 'waiting' | 'full' | 'superseded' | 'give-way' | 'refused' | 'stuck';

/** Ends an acquire: a waiter of higher priority wants the permit that admits the acquirer to this queue. Not for users. */
export class GivesWay extends Error {}

/** A place in the queue of a resource. */
export interface Place {
  /** Joins the queue if one runs already. `false`: none runs. */
  join(): Promise<boolean>;
  /** Joins the queue, and starts it if none runs. */
  enter(): Promise<void>;
  /** Sends the ticket again, asking for a sign of life. Absent if a Workflow waits, and asks, on the acquirer's behalf. */
  ask?(): Promise<void>;
  /** Waits for a message; `undefined` if none came in time. An offer stays open until `missed`, `served` or `leave`. */
  next(withinMs: number): Promise<LineMessage | undefined>;
  /** Another acquirer was faster at the slot of the open offer. The place is kept. */
  missed(): Promise<void>;
  /** The open offer has become a permit: the queue needs no message. */
  served(): void;
  /** Leaves the queue, and passes on an open offer. `undefined`: there is nothing to leave. */
  leave(): Promise<unknown> | undefined;
}

/** The surroundings of an acquirer: a Workflow, a client, or the Workflow that waits for a client. */
export interface Surroundings<Won> {
  /** Milliseconds, on the clock of `deadlineMs`. */
  nowMs(): number;
  /** A number in [0, 1). */
  random(): number;
  /** Tries one slot, because of an offer or unasked. `undefined`: another acquirer has the slot. */
  claim(slot: string, offer?: Offer): Promise<Won | undefined>;
  /** Makes the place in the queue; called once. */
  place(): Place;
  /** Gives up because the queue is full, or a later acquirer has the place. Absent if the acquirer comes back later. */
  full?(isSuperseded: boolean): Won;
}

export interface AcquirerOptions {
  readonly slots: readonly string[];
  /** When to give up, on the clock of `nowMs`. Infinity: never. */
  readonly deadlineMs: number;
  readonly recheckAfterMs: number;
  /** How many slots a newcomer tries before it starts a queue. */
  readonly firstTries: number;
  /** After how many of these tries it joins the queue, if one runs. Strict order: 0. */
  readonly triesBeforeJoin: number;
  /** The most slots that the acquirer tries in one round while the queue does not answer. */
  readonly triesPerRound: number;
}

/**
 * How an acquirer tries slots, joins the queue, probes the queue and gives up, wherever it runs. Pure: clock, randomness, claims and the
 * place in the queue come in from outside.
 *
 *     newcomer --slot free--> won                       .--missed--.
 *        '--all taken, or others wait--> parked --offer--> claiming --> won
 *                                         |  ^--answer--.
 *                                         '--silence--> owed --silence again--> round of own tries --slot free--> won
 *     from anywhere: deadline --> gives up; cancelled --> leaves
 *
 * Invariants, cited where they are kept and in the tests:
 *
 * - **A1** The acquirer makes one claim at a time, only for one of its slots or for an offered slot, and none after it has won.
 * - **A2** In strict order (`triesBeforeJoin: 0`), it tries a slot unasked only if it found no queue, or if the queue has owed it an
 *   answer for a `recheckAfterMs` (less up to a quarter, at random).
 * - **A3** Each offer ends in exactly one of: served, missed, or left open for `leave`, which passes it on.
 * - **A4** The place is left exactly once and last, whatever happened.
 * - **A5** While an answer is owed, there is a round of at most `triesPerRound` tries each `recheckAfterMs` (later if the queue was slow to
 *   take the ticket), and ever more rarely after the first rotation. No slot is tried again before all others were.
 * - **A6** While the queue answers, the acquirer tries no slot unasked, and asks ever more rarely.
 * - **A7** The acquirer waits no longer than until its deadline. After the deadline it makes no try unasked but its first: a caller with
 *   little time gets a slot that is free.
 */
export class Acquirer<Won> {
  private readonly slots: readonly string[];
  /** The index in `slots` of the slot to try next. */
  private cursor = 0;
  private readonly delay: RecheckDelay;

  constructor(
    private readonly options: AcquirerOptions,
    private readonly outside: Surroundings<Won>,
  ) {
    // Shuffled, so that contenders do not all start at slot 0 and fail in step.
    this.slots = shuffle(options.slots, () => outside.random());
    this.delay = new RecheckDelay(options.recheckAfterMs, Math.ceil(options.slots.length / options.triesPerRound));
  }

  /** Tries this many slots once, from where it left off. `undefined` if all are taken, or the deadline has passed. */
  async tryOnce(most = this.slots.length): Promise<Won | undefined> {
    for (let tries = Math.min(most, this.slots.length); tries > 0; tries--) {
      const won = await this.claimNext();
      if (won !== undefined) return won; // A1
    }
    return undefined;
  }

  /**
   * Tries every slot once, for a caller that does not wait. In strict order, it does so only if no queue runs. If a queue runs, the acquirer
   * joins it for a moment, and leaves if it does not get its turn by then: others may wait.
   */
  async tryNow(): Promise<Won | undefined> {
    if (this.options.triesBeforeJoin > 0) return await this.tryOnce();
    const place = this.outside.place();
    try {
      if (!(await place.join())) return await this.tryOnce(); // A2
      const message = await place.next(TURN_WITHIN_MS);
      return typeof message === 'object' ? await this.handleOffer(message, place) : undefined;
    } finally {
      await place.leave(); // A4
    }
  }

  /** Waits for a slot. `undefined` if the deadline has passed. */
  async acquire(): Promise<Won | undefined> {
    const { firstTries, triesBeforeJoin } = this.options;
    const place = this.outside.place();
    try {
      for (let tried = 0; tried < Math.min(firstTries, this.slots.length); tried++) {
        const sentMs = this.outside.nowMs();
        if (tried === triesBeforeJoin && (await place.join())) return await this.waitIn(place, sentMs); // A2
        const won = await (tried === 0 ? this.claimSlot() : this.claimNext()); // A7
        if (won !== undefined) return won;
      }
      const sentMs = this.outside.nowMs();
      await place.enter();
      return await this.waitIn(place, sentMs);
    } finally {
      const left = place.leave(); // A4
      if (left) await left; // in a Workflow, each promise takes time: the SDK keeps a stack trace for it
    }
  }

  /** Parked: nothing happens here until a message comes, except a probe of the queue now and then. @param sentMs when the ticket was sent */
  private async waitIn(place: Place, sentMs: number): Promise<Won | undefined> {
    this.delay.linedUp(this.outside.nowMs() - sentMs);
    for (;;) {
      const leftMs = this.leftMs();
      if (leftMs <= 0) return undefined; // A7
      const recheckMs = place.ask
        ? this.delay.nextMs(this.outside.random(), this.outside.nowMs())
        : Number.POSITIVE_INFINITY;
      const message = await place.next(Math.min(leftMs, recheckMs));
      const won = await this.handle(message, place);
      if (won !== undefined) return won;
    }
  }

  private async handle(message: LineMessage | undefined, place: Place): Promise<Won | undefined> {
    if (message === undefined) return this.leftMs() > 0 ? await this.handleSilence(place) : undefined;
    if (message === 'waiting')
      this.delay.answered(); // A6
    else if (message === 'give-way') throw new GivesWay();
    else if (message === 'full' || message === 'superseded') {
      if (this.outside.full) return this.outside.full(message === 'superseded');
      this.delay.hadNoRoom();
    } else if (message === 'refused') this.delay.hadNoRoom();
    else if (message === 'stuck') return await this.tryOnce(this.options.triesPerRound);
    else return await this.handleOffer(message, place);
    return undefined;
  }

  private async handleOffer(offer: Offer, place: Place): Promise<Won | undefined> {
    this.delay.hadTurn();
    const won = await this.outside.claim(offer.slot, offer); // A3: if this throws, `leave` passes the offer on
    if (won !== undefined) place.served();
    else await place.missed();
    return won;
  }

  /**
   * After the first silence, the acquirer asks whether the queue is there. If the queue is gone, asking starts it again; if it is stuck, a slot
   * may be free. A stuck queue keeps every signal, so it is asked again only once silences are long.
   */
  private async handleSilence(place: Place): Promise<Won | undefined> {
    const isStuck = this.delay.isAnswerOwed; // A2
    if (!isStuck || this.delay.isBackedOff) {
      const sentMs = this.outside.nowMs();
      await place.ask?.();
      this.delay.asked(this.outside.nowMs() - sentMs);
    }
    return isStuck ? await this.tryOnce(this.options.triesPerRound) : undefined; // A5
  }

  /** Tries the next slot, unless the deadline has passed. */
  private claimNext(): Promise<Won | undefined> | undefined {
    return this.leftMs() > 0 ? this.claimSlot() : undefined; // A7
  }

  private claimSlot(): Promise<Won | undefined> {
    const slot = this.slots[this.cursor] as string;
    this.cursor = (this.cursor + 1) % this.slots.length;
    return this.outside.claim(slot);
  }

  private leftMs(): number {
    return this.options.deadlineMs - this.outside.nowMs();
  }
}
