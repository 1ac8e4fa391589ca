import { priorityOf } from '../../shared/priority';
import type { PreemptibleNotice, PreemptionTerms, Ticket } from '../../shared/protocol';
import type { InUse } from './in-use';
import { OFFER_TIMEOUT_MS } from './offer-timeouts';
import { probeAfterMs, type QueueCommand } from './queue-command';
import {
  type Answer,
  type KnownHolder,
  type MaybeHeld,
  mayBeHeld,
  NOT_ASKED,
  type SlotAt,
  type SlotTable,
} from './slot-table';

/** How long the queue waits for holders' answers, before it decides without the missing ones. A holder that has not opted in sends none. */
export const ANSWERS_WITHIN_MS = 1_000;

/** How long after its turn a waiter has claimed its slot, as a rule. Before that, an offered slot has no permit that could answer. */
const CLAIMED_WITHIN_MS = 500;

/** How long after the end of its grace a permit may still be there: a timer is up to a second late, and its `closing` takes a moment. */
export const LATE_MS = 2_000;

/**
 * Makes holders give way to preemptors: waiters that ask for a holder to give way, and have no turn. First the queue asks the holder of each
 * slot for which a preemptor is eligible whether it may have to give way, and at what priority it holds. When all have answered, or a second
 * has gone by, the queue tells one holder for each preemptor to give way: one of the lowest priority. While no preemptor is in line, this
 * class does nothing.
 *
 * A priority is a `priorityKey`: the smaller the number, the higher the priority. The permit of a held slot is asked with a probe that also
 * carries the question; the permit of an offered slot with `ask`, since a probe would replace the queue's record of the turn.
 *
 * The {@link Answer} in a slot's state says how far that has come:
 *
 *     not asked --asked--> due --answer--> known --picked: preempt sent--> gives way --closing--> the slot is free
 *                           '--none in time--> none: it is left alone         '--grace long over--> not asked
 *
 * "Gives way" is `known` with `untilMs`, the time by which the permit should have ended. A `known` answer becomes old (`isOld`) when another
 * permit may have the slot by now; the queue then asks again, and relies on the old answer until a new one comes. An offered slot whose answer
 * is late goes back to "not asked" instead of "none", since its waiter may be about to claim it.
 *
 * What the queue knows is a hint, and so is what it sends: the permit decides, and ends by itself. Invariants, which the model test checks:
 *
 * - **Q4** Only a holder of a strictly lower priority is told to give way, and of the known holders that do not give way yet, one of the
 *   lowest.
 * - **Q5** At most one holder gives way to each preemptor. `preempt` does not name the preemptor, so the test can only compare numbers.
 * - **Q6** If a preemptor waits, and a slot for which it is eligible has a holder of lower priority that has opted in, a holder gives way to
 *   it. This takes some seconds: the test checks it after all messages have arrived, not after each event.
 */
export class Preemption {
  /** @param slots this class writes the answers in their states. It makes one move: an offered slot from which an answer comes is held */
  constructor(
    private readonly slots: SlotTable,
    private readonly inUse: InUse,
  ) {}

  /**
   * A permit reports that its holder may have to give way.
   * @returns the offered state that the slot had until now, if the answer shows that its turn was used: the caller ends that turn
   */
  answered(
    { slot, runId, graceMs, priorityKey, givesWay }: PreemptibleNotice,
    nowMs: number,
  ): SlotAt<'offered'> | undefined {
    const state = this.slots.get(slot);
    if (!mayBeHeld(state)) return undefined;
    const known = holderOf(state.answer);
    const toldUntilMs = known?.runId === runId ? known.untilMs : undefined;
    const untilMs = toldUntilMs ?? (givesWay ? nowMs + graceMs + LATE_MS : undefined);
    const holder = { runId, graceMs, priorityKey, untilMs };
    if (state.at !== 'offered') {
      // An answer that comes before the question, or while the last one is old, may be an earlier permit's: it counts, but as old. If it
      // comes during a probe with the question, `afterProbe` makes it new.
      this.slots.answer(slot, state, { is: 'known', holder, isOld: isToAsk(state.answer) });
      return undefined;
    }
    if (state.answer.is === 'not-asked') return undefined; // the answer of a permit before the turn
    // The turn was used. Or another acquirer was faster, and the waiter will say so.
    const probeAtMs = nowMs + probeAfterMs(0, this.slots.size);
    this.slots.hold(slot, { sinceMs: nowMs, probeAtMs }, { is: 'known', holder, isOld: false });
    return state;
  }

  /** The permit that was to be told to give way has ended. Another acquirer may have the slot by now, so its permit is to be asked. */
  notThere(slot: string, runId: string): void {
    const state = this.slots.get(slot);
    if (mayBeHeld(state) && holderOf(state.answer)?.runId === runId) this.slots.answer(slot, state, NOT_ASKED);
  }

  /** Whether a preemptor is eligible for the slot. If so, a probe of the slot also asks whether its holder may have to give way. */
  isConcerned(slot: string, preemptors: readonly Ticket[]): boolean {
    return preemptors.some((waiter) => this.inUse.isEligible(waiter, slot));
  }

  /** The answer to store for a slot whose probe has found a permit. `asks`: the probe has carried the question. */
  afterProbe({ asks, answer }: SlotAt<'probing'>, nowMs: number): Answer {
    // An old answer says nothing of a permit that has come since without the queue's knowledge: so the queue asks again.
    if (answer.is === 'known') return { ...answer, isOld: !asks };
    if (!asks) return NOT_ASKED;
    return answer.is === 'not-asked' ? { is: 'due', byMs: nowMs + ANSWERS_WITHIN_MS } : answer;
  }

  /** When the time for an answer, or for a holder to give way, is over next, and {@link moves} has something to do. Infinity if it never is. */
  dueMs(preemptors: readonly Ticket[]): number {
    let dueMs = Number.POSITIVE_INFINITY;
    if (preemptors.length === 0) return dueMs;
    for (const [slot, { answer }] of this.slotsMaybeHeld()) {
      if (this.isConcerned(slot, preemptors)) dueMs = Math.min(dueMs, endsMs(answer));
    }
    return dueMs;
  }

  /**
   * Asks, and then tells the picked holders to give way.
   * @param probe moves the slot to `probing`, and returns the command to send (see `PermitWatch.probe`)
   */
  *moves(preemptors: readonly Ticket[], nowMs: number, probe: (slot: string) => QueueCommand): Generator<QueueCommand> {
    if (preemptors.length === 0) return;
    yield* this.ask(preemptors, nowMs, probe);
    const isEligible = (waiter: Ticket, slot: string) => this.inUse.isEligible(waiter, slot);
    const hasAllAnswers = (waiter: Ticket) => this.hasAllAnswers(waiter);
    for (const { holder, priorityKey } of pickHolders(preemptors, this.holders(), isEligible, hasAllAnswers)) {
      const { slot, runId } = holder;
      const state = this.slots.get(slot);
      if (!mayBeHeld(state) || state.answer.is !== 'known') continue;
      const told = { ...state.answer.holder, untilMs: nowMs + holder.graceMs + LATE_MS };
      this.slots.answer(slot, state, { ...state.answer, holder: told });
      yield { do: 'preempt', slot, runId, priorityKey };
    }
  }

  /** Asks the holders that were not asked yet, or whose answer is old, and drops the answers whose time is over. */
  private *ask(
    preemptors: readonly Ticket[],
    nowMs: number,
    probe: (slot: string) => QueueCommand,
  ): Generator<QueueCommand> {
    for (const [slot, state] of this.slotsMaybeHeld()) {
      if (!this.isConcerned(slot, preemptors)) continue;
      const answer = endsMs(state.answer) <= nowMs ? afterItsTime(state) : state.answer;
      if (answer !== state.answer) this.slots.answer(slot, state, answer);
      if (!isToAsk(answer)) continue;
      if (state.at === 'held') yield probe(slot);
      else if (state.at === 'offered') {
        const claimedMs = state.untilMs - OFFER_TIMEOUT_MS + CLAIMED_WITHIN_MS; // the turn was given at `untilMs - OFFER_TIMEOUT_MS`
        // Too early to ask: `due` only makes the queue come back at `claimedMs`.
        const byMs = nowMs < claimedMs ? claimedMs : nowMs + ANSWERS_WITHIN_MS;
        this.slots.answer(slot, state, { is: 'due', byMs });
        if (nowMs >= claimedMs) yield { do: 'ask', slot };
      }
    }
  }

  /**
   * Whether the queue waits for no more answers on behalf of this waiter: each slot that is held, and for which the waiter is eligible, has
   * answered, or its time is over. Offered slots are not waited for, since they may have no holder.
   */
  private hasAllAnswers(waiter: Ticket): boolean {
    for (const [slot, { answer }] of this.slots.in('held', 'probing')) {
      const isOpen = answer.is === 'not-asked' || answer.is === 'due';
      if (isOpen && this.inUse.isEligible(waiter, slot)) return false;
    }
    return true;
  }

  /** The holders that have said that they may give way, whether or not they give way already. */
  private holders(): PreemptibleHolder[] {
    const holders: PreemptibleHolder[] = [];
    for (const [slot, { answer }] of this.slotsMaybeHeld()) {
      if (answer.is !== 'known') continue;
      const { untilMs, ...known } = answer.holder;
      holders.push({ slot, ...known, givesWay: untilMs !== undefined });
    }
    return holders;
  }

  /** The slots that may be held: offered slots and slots under a probe too. */
  private slotsMaybeHeld(): Iterable<[slot: string, state: MaybeHeld]> {
    return this.slots.in('held', 'probing', 'offered');
  }
}

function holderOf(answer: Answer): KnownHolder | undefined {
  return answer.is === 'known' ? answer.holder : undefined;
}

/** Whether the queue is to ask, for the first time or again. */
function isToAsk(answer: Answer): boolean {
  return answer.is === 'not-asked' || (answer.is === 'known' && answer.isOld);
}

/** Until when the queue waits: for the answer, or for a holder that was told to give way. Infinity if it waits for neither. */
function endsMs(answer: Answer): number {
  if (answer.is === 'due') return answer.byMs;
  return holderOf(answer)?.untilMs ?? Number.POSITIVE_INFINITY;
}

/**
 * What becomes of an answer at {@link endsMs}. A holder that has not given way in time is asked again. An offered slot is asked again too,
 * since its waiter may claim it at any moment. Any other slot that did not answer is left alone.
 */
function afterItsTime({ at, answer }: MaybeHeld): Answer {
  return answer.is === 'known' || at === 'offered' ? NOT_ASKED : { is: 'none' };
}

/** A holder that has said that it may have to give way. */
export interface PreemptibleHolder extends PreemptionTerms {
  slot: string;
  runId: string;
  /** It gives way already. */
  givesWay: boolean;
}

/** A holder that is to be told to give way. */
export interface Picked {
  holder: PreemptibleHolder;
  /** The preemptor's priority, not the holder's. */
  priorityKey: number;
}

/**
 * Picks the holders that are to be told to give way. Each preemptor counts on one holder, the most urgent preemptor first: on a holder that
 * gives way already, or else on a holder that is picked here. A holder is picked only for a strictly higher priority than its own. Pure.
 *
 * @param holders all that have said that they may give way
 * @param isEligible whether a waiter can have the slot
 * @param hasAllAnswers whether no more answers are awaited for this waiter. Until then, no holder is picked for it: a holder of lower priority may
 * still answer
 */
export function pickHolders(
  preemptors: readonly Ticket[],
  holders: readonly PreemptibleHolder[],
  isEligible: (waiter: Ticket, slot: string) => boolean,
  hasAllAnswers: (waiter: Ticket) => boolean,
): Picked[] {
  const left = new Set(holders);
  const picked: Picked[] = [];
  for (const waiter of [...preemptors].sort(byUrgency)) {
    const eligible = [...left].filter(({ slot }) => isEligible(waiter, slot));
    const holder =
      eligible.find(({ givesWay }) => givesWay) ?? (hasAllAnswers(waiter) ? lowest(eligible, waiter) : undefined);
    if (!holder) continue;
    left.delete(holder);
    if (!holder.givesWay) picked.push({ holder, priorityKey: priorityOf(waiter) });
    if (left.size === 0) break;
  }
  return picked;
}

/**
 * The holder of the lowest priority, if that is below the waiter's; of equals, the holder that began last, since it loses least. Run IDs
 * show which: they grow with time, on servers from 1.27. On older servers the choice among equals is arbitrary, but the same each time.
 */
function lowest(holders: readonly PreemptibleHolder[], waiter: Ticket): PreemptibleHolder | undefined {
  let found: PreemptibleHolder | undefined;
  for (const holder of holders) {
    if (holder.priorityKey <= priorityOf(waiter)) continue;
    const difference = found ? holder.priorityKey - found.priorityKey : 1;
    if (difference > 0 || (difference === 0 && holder.runId > (found?.runId ?? ''))) found = holder;
  }
  return found;
}

/** The higher priority first; of equals, the ticket that waits longer. Not the full turn order: fairness plays no part here. */
function byUrgency(a: Ticket, b: Ticket): number {
  return priorityOf(a) - priorityOf(b) || a.sinceMs - b.sinceMs;
}
