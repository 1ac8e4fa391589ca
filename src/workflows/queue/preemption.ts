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

/** How long the queue waits for holders' answers, before it decides without the missing ones. Plain holders send none. */
export const ANSWERS_WITHIN_MS = 1_000;

/** How long after its turn a waiter has claimed its slot, as a rule. Only then does it make sense to ask that holder. */
const CLAIMED_WITHIN_MS = 500;

/** How much later than its grace a permit may end: a timer is up to a second late, and its `closing` takes a moment. */
export const LATE_MS = 2_000;

/**
 * Asks holders to give way to preemptors: waiters that ask for a holder to give way, and have no turn. First it asks the holder of each slot
 * for which a preemptor is eligible whether it may have to give way, and at what priority it holds. When all have answered, or a second has
 * gone by, it tells one holder for each preemptor to give way: one of the lowest priority. While no preemptor is in line, it does nothing.
 *
 * The {@link Answer} in a slot's state says how far that has come:
 *
 *     not asked --asked--> due --answer--> known --picked: preempt sent--> gives way --closing--> the slot is free
 *                           '--none in time--> none: it is left alone         '--grace long over--> not asked
 *
 * What the queue knows is a hint, like all that it says: the permit decides, and ends by itself. Invariants, which the model test
 * checks:
 *
 * - **Q4** Only a holder of a strictly lower priority is asked to give way, and of those known, one of the lowest.
 * - **Q5** A preemptor has at most one holder that gives way to it.
 * - **Q6** While a preemptor waits, and a slot for which it is eligible has a known holder of lower priority, one gives way to it.
 */
export class Preemption {
  /** @param slots this part writes their answers */
  constructor(
    private readonly slots: SlotTable,
    private readonly inUse: InUse,
  ) {}

  /** A permit says that its holder may have to give way. @returns the turn that was used, if the answer shows that */
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
      this.slots.answer(slot, state, { is: 'known', holder, isOld: isToAsk(state.answer) });
      return undefined;
    }
    if (state.answer.is === 'not-asked') return undefined;
    // The turn was used. Or another acquirer was faster, and the waiter will say so.
    const probeAtMs = nowMs + probeAfterMs(0, this.slots.size);
    this.slots.hold(slot, { sinceMs: nowMs, probeAtMs }, { is: 'known', holder, isOld: false });
    return state;
  }

  /** A permit that was asked to give way has ended: another acquirer may have the slot. */
  notThere(slot: string, runId: string): void {
    const state = this.slots.get(slot);
    if (mayBeHeld(state) && holderOf(state.answer)?.runId === runId) this.slots.answer(slot, state, NOT_ASKED);
  }

  /** Whether a preemptor is eligible for the slot. So a probe of it asks for an answer. */
  isConcerned(slot: string, preemptors: readonly Ticket[]): boolean {
    return preemptors.some((waiter) => this.inUse.isEligible(waiter, slot));
  }

  /** What is known of the holder that a probe has found. */
  afterProbe({ asks, answer }: SlotAt<'probing'>, nowMs: number): Answer {
    // An old answer says nothing of a permit that has come since without the queue's knowledge: so the queue asks anew.
    if (answer.is === 'known') return { ...answer, isOld: !asks };
    if (!asks) return NOT_ASKED;
    return answer.is === 'not-asked' ? { is: 'due', byMs: nowMs + ANSWERS_WITHIN_MS } : answer;
  }

  dueMs(preemptors: readonly Ticket[]): number {
    let dueMs = Number.POSITIVE_INFINITY;
    if (preemptors.length === 0) return dueMs;
    for (const [slot, { answer }] of this.held()) {
      if (this.isConcerned(slot, preemptors)) dueMs = Math.min(dueMs, endsMs(answer));
    }
    return dueMs;
  }

  *moves(preemptors: readonly Ticket[], nowMs: number, probe: (slot: string) => QueueCommand): Generator<QueueCommand> {
    if (preemptors.length === 0) return;
    yield* this.ask(preemptors, nowMs, probe);
    const isEligible = (waiter: Ticket, slot: string) => this.inUse.isEligible(waiter, slot);
    const isSettled = (waiter: Ticket) => this.isSettled(waiter);
    for (const { holder, priorityKey } of pickHolders(preemptors, this.holders(), isEligible, isSettled)) {
      const { slot, runId } = holder;
      const state = this.slots.get(slot);
      if (!mayBeHeld(state) || state.answer.is !== 'known') continue;
      const told = { ...state.answer.holder, untilMs: nowMs + holder.graceMs + LATE_MS };
      this.slots.answer(slot, state, { ...state.answer, holder: told });
      yield { do: 'preempt', slot, runId, priorityKey };
    }
  }

  /** Asks the holders that no preemptor has asked yet, and lets go of old answers. */
  private *ask(
    preemptors: readonly Ticket[],
    nowMs: number,
    probe: (slot: string) => QueueCommand,
  ): Generator<QueueCommand> {
    for (const [slot, state] of this.held()) {
      if (!this.isConcerned(slot, preemptors)) continue;
      const answer = endsMs(state.answer) <= nowMs ? afterItsTime(state) : state.answer;
      if (answer !== state.answer) this.slots.answer(slot, state, answer);
      if (!isToAsk(answer)) continue;
      if (state.at === 'held') yield probe(slot);
      else if (state.at === 'offered') {
        const claimedMs = state.untilMs - OFFER_TIMEOUT_MS + CLAIMED_WITHIN_MS;
        const byMs = nowMs < claimedMs ? claimedMs : nowMs + ANSWERS_WITHIN_MS;
        this.slots.answer(slot, state, { is: 'due', byMs });
        if (nowMs >= claimedMs) yield { do: 'ask', slot };
      }
    }
  }

  /** Whether no answer is to come from a slot for which the waiter is eligible. */
  private isSettled(waiter: Ticket): boolean {
    for (const [slot, { answer }] of this.slots.in('held', 'probing')) {
      const isOpen = answer.is === 'not-asked' || answer.is === 'due';
      if (isOpen && this.inUse.isEligible(waiter, slot)) return false;
    }
    return true;
  }

  private holders(): PreemptibleHolder[] {
    const holders: PreemptibleHolder[] = [];
    for (const [slot, { answer }] of this.held()) {
      if (answer.is !== 'known') continue;
      const { untilMs, ...known } = answer.holder;
      holders.push({ slot, ...known, givesWay: untilMs !== undefined });
    }
    return holders;
  }

  private held(): Iterable<[slot: string, state: MaybeHeld]> {
    return this.slots.in('held', 'probing', 'offered');
  }
}

function holderOf(answer: Answer): KnownHolder | undefined {
  return answer.is === 'known' ? answer.holder : undefined;
}

/** Whether the queue is to ask, the first time or anew. */
function isToAsk(answer: Answer): boolean {
  return answer.is === 'not-asked' || (answer.is === 'known' && answer.isOld);
}

/** Until when the answer may come, or by when the holder should have given way. Infinity when nothing is awaited. */
function endsMs(answer: Answer): number {
  if (answer.is === 'due') return answer.byMs;
  return holderOf(answer)?.untilMs ?? Number.POSITIVE_INFINITY;
}

/** The time for an answer is over, which an offered slot may still get; or the time by which a holder should have given way. */
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

/** A holder that is to give way, and the priority of the preemptor to which. */
export interface Picked {
  holder: PreemptibleHolder;
  priorityKey: number;
}

/**
 * Picks the holders that are to give way. Each preemptor gets one holder, the most urgent preemptor first: a holder that gives way
 * already, or else one that is to be told to. A holder gives way to a strictly higher priority only. Pure.
 *
 * @param holders all that have said that they may give way
 * @param isEligible whether a waiter can have the slot
 * @param isSettled whether all the slots for which the waiter is eligible have been asked; until then it waits, for a lower priority may
 * answer later
 */
export function pickHolders(
  preemptors: readonly Ticket[],
  holders: readonly PreemptibleHolder[],
  isEligible: (waiter: Ticket, slot: string) => boolean,
  isSettled: (waiter: Ticket) => boolean,
): Picked[] {
  const left = new Set(holders);
  const picked: Picked[] = [];
  for (const waiter of [...preemptors].sort(byUrgency)) {
    const eligible = [...left].filter(({ slot }) => isEligible(waiter, slot));
    const holder =
      eligible.find(({ givesWay }) => givesWay) ?? (isSettled(waiter) ? lowest(eligible, waiter) : undefined);
    if (!holder) continue;
    left.delete(holder);
    if (!holder.givesWay) picked.push({ holder, priorityKey: priorityOf(waiter) });
    if (left.size === 0) break;
  }
  return picked;
}

/** The holder of the lowest priority; of equals, the one that began last, since it loses least. */
function lowest(holders: readonly PreemptibleHolder[], waiter: Ticket): PreemptibleHolder | undefined {
  let found: PreemptibleHolder | undefined;
  for (const holder of holders) {
    if (holder.priorityKey <= priorityOf(waiter)) continue;
    const difference = found ? holder.priorityKey - found.priorityKey : 1;
    if (difference > 0 || (difference === 0 && holder.runId > (found?.runId ?? ''))) found = holder;
  }
  return found;
}

function byUrgency(a: Ticket, b: Ticket): number {
  return priorityOf(a) - priorityOf(b) || a.sinceMs - b.sinceMs;
}
