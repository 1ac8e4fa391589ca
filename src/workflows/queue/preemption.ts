import { priorityOf } from '../../shared/priority';
import type { AskedSlot, PreemptibleNotice, PreemptionTerms, SlotState, Ticket } from '../../shared/protocol';
import { OFFER_TIMEOUT_MS } from './patience';
import { probeAfterMs, type QueueCommand } from './queue-command';

/** How long the queue waits for holders' answers, before it decides without the missing ones. Plain holders send none. */
export const ANSWERS_WITHIN_MS = 1_000;

/** How long after its turn a waiter has claimed its slot, as a rule. Only then does it make sense to ask that holder. */
const CLAIMED_WITHIN_MS = 500;

/** How much later than its grace a permit may end: a timer is up to a second late, and its `closing` takes a moment. */
export const LATE_MS = 2_000;

/** No answer has come in time. */
const NO_ANSWER = 0;

/** A slot that somebody may hold: an offered one too, since nobody tells the queue that a turn was used. */
type MaybeHeld = SlotState & { at: 'held' | 'probing' | 'offered' };

type ProbingState = SlotState & { at: 'probing' };

/**
 * Asks holders to give way to preemptors: waiters that ask for a holder to give way, and have no turn. It does nothing while no
 * preemptor is in line. The state of a slot says what is known of its holder:
 *
 *     held --a waiter asks: watch with `preempt`--> asked --answer--> known --picked: preempt sent--> gives way --closing--> free
 *                                                     '--no answer in time: it is left alone   '--grace long over--> held
 *
 * What the queue knows is a hint, like all that it says: the permit decides, and ends by itself. Invariants, which the model test
 * checks:
 *
 * - **Q4** Only a holder of a strictly lower priority is asked to give way, and of those known, one of the lowest.
 * - **Q5** A preemptor has at most one holder that gives way to it.
 * - **Q6** While a preemptor waits, and a slot that it would take has a known holder of lower priority, one gives way to it.
 */
export class Preemption {
  /**
   * @param slots the states of all slots; this part writes what they say of holders
   * @param wants whether a waiter would take the slot
   */
  constructor(
    private readonly slots: Map<string, SlotState>,
    private readonly wants: (waiter: Ticket, slot: string) => boolean,
  ) {}

  /** A permit says that its holder may have to give way. @returns the turn that was used, if the answer shows that */
  answered(
    { slot, runId, graceMs, priorityKey, givesWay }: PreemptibleNotice,
    nowMs: number,
  ): (SlotState & { at: 'offered' }) | undefined {
    const state = this.slots.get(slot);
    if (!mayBeHeld(state)) return undefined;
    const known = state.holder?.runId === runId ? state.holder : undefined;
    const untilMs = known?.untilMs ?? (givesWay ? nowMs + graceMs + LATE_MS : undefined);
    const holder = { runId, graceMs, priorityKey, untilMs };
    if (state.at !== 'offered') {
      this.slots.set(slot, { ...state, holder });
      return undefined;
    }
    if (state.answersByMs === undefined) return undefined;
    // The turn was used. Or another acquirer was faster, and the waiter will say so.
    const probeAtMs = nowMs + probeAfterMs(0, this.slots.size);
    this.slots.set(slot, { at: 'held', sinceMs: nowMs, probeAtMs, answersByMs: state.answersByMs, holder });
    return state;
  }

  /** A permit that was asked to give way has ended: another acquirer may have the slot. */
  notThere(slot: string, runId: string): void {
    const state = this.slots.get(slot);
    if (mayBeHeld(state) && state.holder?.runId === runId) this.forget(slot, state);
  }

  /** What a probe of this slot asks, and what it keeps in mind of the holder. */
  beforeProbe(slot: string, preemptors: readonly Ticket[]): AskedSlot & { asks?: true } {
    const state = this.slots.get(slot);
    const { answersByMs, holder } = state?.at === 'held' ? state : {};
    return { asks: this.isWanted(slot, preemptors) || undefined, answersByMs, holder };
  }

  /** What is known of the holder that a probe has found. */
  afterProbe({ asks, answersByMs, holder }: ProbingState, nowMs: number): AskedSlot {
    // An old answer says nothing of a permit that has come since without the queue's knowledge: so the queue asks anew.
    return { answersByMs: asks ? (answersByMs ?? nowMs + ANSWERS_WITHIN_MS) : undefined, holder };
  }

  dueMs(preemptors: readonly Ticket[]): number {
    let dueMs = Number.POSITIVE_INFINITY;
    for (const [slot, state] of preemptors.length > 0 ? this.slots : []) {
      const nextMs = mayBeHeld(state) && this.isWanted(slot, preemptors) ? dueOf(state) : undefined;
      if (nextMs !== undefined) dueMs = Math.min(dueMs, nextMs);
    }
    return dueMs;
  }

  *moves(preemptors: readonly Ticket[], nowMs: number, probe: (slot: string) => QueueCommand): Generator<QueueCommand> {
    if (preemptors.length === 0) return;
    yield* this.ask(preemptors, nowMs, probe);
    const isSettled = (waiter: Ticket) => this.isSettled(waiter);
    for (const { holder, priorityKey } of pickHolders(preemptors, this.holders(), this.wants, isSettled)) {
      const { slot, givesWay, ...known } = holder;
      const state = this.slots.get(slot);
      if (!mayBeHeld(state)) continue;
      this.slots.set(slot, { ...state, holder: { ...known, untilMs: nowMs + known.graceMs + LATE_MS } });
      yield { do: 'preempt', slot, runId: known.runId, priorityKey };
    }
  }

  /** Asks the holders that no preemptor has asked yet, and lets go of old answers. */
  private *ask(
    preemptors: readonly Ticket[],
    nowMs: number,
    probe: (slot: string) => QueueCommand,
  ): Generator<QueueCommand> {
    for (const [slot, state] of this.slots) {
      if (!mayBeHeld(state) || !this.isWanted(slot, preemptors)) continue;
      if ((dueOf(state) ?? nowMs + 1) <= nowMs) this.timeIsOver(slot, state);
      const now = this.slots.get(slot);
      if (!mayBeHeld(now) || now.answersByMs !== undefined) continue;
      if (now.at === 'held') yield probe(slot);
      else if (now.at === 'offered') {
        const claimedMs = now.untilMs - OFFER_TIMEOUT_MS + CLAIMED_WITHIN_MS;
        this.slots.set(slot, { ...now, answersByMs: nowMs < claimedMs ? claimedMs : nowMs + ANSWERS_WITHIN_MS });
        if (nowMs >= claimedMs) yield { do: 'ask', slot };
      }
    }
  }

  /** The time for an answer is over, which an offered slot may still get; or the time by which a holder should have given way. */
  private timeIsOver(slot: string, state: MaybeHeld): void {
    if (state.holder || state.at === 'offered') this.forget(slot, state);
    else this.slots.set(slot, { ...state, answersByMs: NO_ANSWER });
  }

  private forget(slot: string, state: MaybeHeld): void {
    this.slots.set(slot, { ...state, answersByMs: undefined, holder: undefined });
  }

  /** Whether no answer is to come from a slot that the waiter would take. */
  private isSettled(waiter: Ticket): boolean {
    for (const [slot, state] of this.slots) {
      if (!mayBeHeld(state) || state.at === 'offered' || state.holder) continue;
      if (state.answersByMs !== NO_ANSWER && this.wants(waiter, slot)) return false;
    }
    return true;
  }

  private holders(): PreemptibleHolder[] {
    const holders: PreemptibleHolder[] = [];
    for (const [slot, state] of this.slots) {
      if (!mayBeHeld(state) || !state.holder) continue;
      const { untilMs, ...known } = state.holder;
      holders.push({ slot, ...known, givesWay: untilMs !== undefined });
    }
    return holders;
  }

  private isWanted(slot: string, waiters: readonly Ticket[]): boolean {
    return waiters.some((waiter) => this.wants(waiter, slot));
  }
}

function mayBeHeld(state: SlotState | undefined): state is MaybeHeld {
  return state?.at === 'held' || state?.at === 'probing' || state?.at === 'offered';
}

/** When something is to be done with a slot that was asked. */
function dueOf({ holder, answersByMs }: AskedSlot): number | undefined {
  return holder ? holder.untilMs : answersByMs || undefined;
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
 * @param wants whether a waiter would take the slot
 * @param isSettled whether all the slots that the waiter would take have been asked; until then it waits, for a lower priority may
 * answer later
 */
export function pickHolders(
  preemptors: readonly Ticket[],
  holders: readonly PreemptibleHolder[],
  wants: (waiter: Ticket, slot: string) => boolean,
  isSettled: (waiter: Ticket) => boolean,
): Picked[] {
  const left = new Set(holders);
  const picked: Picked[] = [];
  for (const waiter of [...preemptors].sort(byUrgency)) {
    const wanted = [...left].filter(({ slot }) => wants(waiter, slot));
    const holder = wanted.find(({ givesWay }) => givesWay) ?? (isSettled(waiter) ? lowest(wanted, waiter) : undefined);
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
