import type { AskedSlot, QueueView, SlotState, UnheardTurns } from '../../shared/protocol';

/** A holder that has said that it may have to give way. `untilMs`: it was told to, and should have ended by this time. */
export type KnownHolder = NonNullable<AskedSlot['holder']>;

/** What a slot's holder has answered to the question whether it may have to give way. Only a preemptor makes the queue ask. */
export type Answer =
  | { is: 'not-asked' }
  /** The answer may come until then. For an offered slot: or until then the queue does not ask. */
  | { is: 'due'; byMs: number }
  /** No answer has come in time. */
  | { is: 'none' }
  /** `isOld`: since the answer came, the slot was probed without the question, so another permit may have the slot: the queue asks again. */
  | { is: 'known'; holder: KnownHolder; isOld: boolean };

export const NOT_ASKED: Answer = { is: 'not-asked' };

/** A state, where what is known of the holder is one value. */
type WithAnswer<State> = State extends AskedSlot & { at: 'held' | 'probing' | 'offered' }
  ? Omit<State, keyof AskedSlot> & { answer: Answer }
  : State;

/** What the queue knows of a slot. */
export type KnownSlot = WithAnswer<SlotState>;
export type Slot = KnownSlot | { at: 'unknown' };
export type SlotAt<At extends Slot['at']> = Slot & { at: At };

/** A slot that may be held, including an offered slot, since the queue is not notified that a turn was used. */
export type MaybeHeld = SlotAt<'held' | 'probing' | 'offered'>;

const UNKNOWN: Slot = { at: 'unknown' };

/**
 * The state of each slot, and each move that a slot can make. The parts of the queue decide which move comes next; only these methods
 * write the states. `QueueState` draws how a slot passes from waiter to waiter, `Drains` what happens to a slot that is out of use.
 *
 * A slot of which the queue knows nothing is `unknown`, and not in the table: so the table contains only what the queue remembers. It keeps
 * the order in which the slots became known; the queue goes through them in this order.
 */
export class SlotTable implements Iterable<[slot: string, state: KnownSlot]> {
  private readonly slots = new Map<string, KnownSlot>();

  constructor(handedOn: QueueView['slots'] = []) {
    for (const [slot, state] of handedOn) this.slots.set(slot, fromWire(state));
  }

  get(slot: string): Slot {
    return this.slots.get(slot) ?? UNKNOWN;
  }

  /** How many slots are known. */
  get size(): number {
    return this.slots.size;
  }

  /** The known slots. During the iteration, a slot may move, and others may become known: they come last. */
  [Symbol.iterator](): IterableIterator<[string, KnownSlot]> {
    return this.slots.entries();
  }

  /** The known slots in one of these states. */
  *in<At extends KnownSlot['at']>(...states: At[]): Generator<[slot: string, state: SlotAt<At>]> {
    for (const [slot, state] of this.slots) if (isAt(state, states)) yield [slot, state];
  }

  /** As the next run of the queue is handed them, and as the query shows them. */
  view(): QueueView['slots'] {
    return [...this.slots].map(([slot, state]) => [slot, toWire(state)]);
  }

  // --- The moves ---

  /** The slot is free. @param unheard the turns for it that got no reply */
  free(slot: string, unheard?: UnheardTurns): void {
    this.slots.set(slot, unheard ? { at: 'free', unheard } : { at: 'free' });
  }

  /** From now on it is unknown. */
  forget(slot: string): void {
    this.slots.delete(slot);
  }

  /** These slots are to be probed once, if they are unknown. Slots that were to be probed before, and have not been, no longer are. */
  lookAt(slots: readonly string[]): void {
    for (const [slot] of this.in('unseen')) this.forget(slot);
    for (const slot of slots) if (!this.slots.has(slot)) this.slots.set(slot, { at: 'unseen' });
  }

  /** The queue asks whether the slot is held. What is known of its holder stays until the answer. */
  probe(slot: string, { asks, overdue }: Pick<SlotAt<'probing'>, 'asks' | 'overdue'>): void {
    const state = this.get(slot);
    const known = state.at === 'held' ? { heldSinceMs: state.sinceMs, answer: state.answer } : undefined;
    this.slots.set(slot, { at: 'probing', answer: NOT_ASKED, ...known, asks, overdue });
  }

  /** While the slot is under a probe, its permit has answered that it keeps the slot out of use. */
  drainedUnderProbe(slot: string, state: SlotAt<'probing'>, runId: string): void {
    this.slots.set(slot, { ...state, drainedBy: runId });
  }

  /** While the queue waits for the answer to a probe or a claim, a permit has closed: the answer may be older than this. */
  closedBeforeAnswer(slot: string, state: SlotAt<'probing' | 'draining'>, runId: string): void {
    if (state.at === 'probing') this.slots.set(slot, { ...state, closed: true });
    else this.slots.set(slot, { at: 'draining', closed: [...state.closed, runId] });
  }

  /** The slot is held. */
  hold(slot: string, held: Omit<SlotAt<'held'>, 'at' | 'answer'>, answer: Answer = NOT_ASKED): void {
    this.slots.set(slot, { at: 'held', ...held, answer });
  }

  /** The waiter of the ticket has a turn for the slot, or several waiters do, of which this is the first. */
  offer(slot: string, ticketId: string, untilMs: number, unheard?: UnheardTurns): void {
    this.slots.set(slot, { at: 'offered', ticketId, untilMs, answer: NOT_ASKED, ...(unheard && { unheard }) });
  }

  /** The slot is for the next ticket of an accumulator, which has a turn for another slot now, by this ticket. */
  reserve(slot: string, ticketId: string, untilMs: number): void {
    this.slots.set(slot, { at: 'offered', ticketId, untilMs, reserved: true, answer: NOT_ASKED });
  }

  /** What is known of the holder. */
  answer(slot: string, state: MaybeHeld, answer: Answer): void {
    this.slots.set(slot, { ...state, answer });
  }

  /** The queue claims the slot, to keep it out of use. */
  drain(slot: string): void {
    this.slots.set(slot, { at: 'draining', closed: [] });
  }

  /** A permit of this run keeps the slot out of use. */
  keepOut(slot: string, runId: string, renewAtMs: number): void {
    this.slots.set(slot, { at: 'drained', runId, renewAtMs });
  }
}

export function mayBeHeld(state: Slot): state is MaybeHeld {
  return state.at === 'held' || state.at === 'probing' || state.at === 'offered';
}

function isAt<At extends KnownSlot['at']>(state: KnownSlot, states: readonly At[]): state is SlotAt<At> {
  return (states as readonly string[]).includes(state.at);
}

/** On the wire, "no answer" is a time that is long over. */
const NO_ANSWER = 0;

function fromWire(state: SlotState): KnownSlot {
  if (state.at !== 'held' && state.at !== 'probing' && state.at !== 'offered') return state;
  const { answersByMs, holder, ...others } = state;
  return { ...others, answer: answerOf({ answersByMs, holder }) };
}

function answerOf({ answersByMs, holder }: AskedSlot): Answer {
  if (holder) return { is: 'known', holder, isOld: answersByMs === undefined };
  if (answersByMs === undefined) return NOT_ASKED;
  return answersByMs === NO_ANSWER ? { is: 'none' } : { is: 'due', byMs: answersByMs };
}

function toWire(state: KnownSlot): SlotState {
  if (!mayBeHeld(state)) return state;
  const { answer, ...others } = state;
  return { ...others, ...askedOf(answer) };
}

function askedOf(answer: Answer): AskedSlot {
  switch (answer.is) {
    case 'not-asked':
      return {};
    case 'due':
      return { answersByMs: answer.byMs };
    case 'none':
      return { answersByMs: NO_ANSWER };
    case 'known':
      return { holder: answer.holder, ...(!answer.isOld && { answersByMs: NO_ANSWER }) };
  }
}
