import type { PreemptibleNotice } from '../../shared/preemption-protocol';
import type { Ticket } from '../../shared/protocol';
import type { AskedSlot, SlotState } from '../../shared/queue-view';
import { OperatedQueueState } from './operated-queue-state';
import { type Holder, requests } from './preemption';
import { probeAfterMs } from './probe-interval';
import type { QueueCommand } from './queue-command';
import { OFFER_TIMEOUT_MS } from './queue-state';

/** How long the queue waits for holders' answers, before it decides without those that have not come. Plain holders send none. */
export const ANSWERS_WITHIN_MS = 1_000;

/** How long after its turn a waiter has claimed its slot, as a rule. Only then does it make sense to ask that holder. */
const CLAIMED_WITHIN_MS = 500;

/** How much later than its grace a permit may end: a timer is up to a second late, and its `closing` takes a moment. */
export const LATE_MS = 2_000;

/** The states of a slot that somebody may hold: `offered` too, since nobody tells the queue that a turn was used. */
type HeldState = SlotState & { at: 'held' | 'probing' | 'offered' };

/**
 * An {@link OperatedQueueState} that asks holders to give way to waiters that ask for it. It does nothing while no such waiter is in
 * line. The state of a slot says what is known of its holder:
 *
 *     held --a waiter asks: watch with `preempt`--> asked --answer--> known --picked: preempt sent--> gives way --closing--> free
 *                                                     '--no answer in time: it is left alone   '--grace long over--> held
 *
 * It is a hint, like all that the queue says: the permit decides, and ends by itself. Invariants, which the model test checks:
 *
 * - **Q4** Only a holder of a strictly lower priority is asked to give way, and of those known, one of the lowest.
 * - **Q5** A waiter that asks has at most one holder that gives way to it.
 * - **Q6** While a waiter asks, and a slot that it would take has a known holder of lower priority, one gives way to it.
 */
export class PreemptingQueueState extends OperatedQueueState {
  /** The waiters that ask for a holder to give way, and have no turn. */
  private asking: readonly Ticket[] = [];

  /** A permit says that its holder may have to give way. */
  preemptible({ slot, runId, graceMs, priorityKey, givesWay }: PreemptibleNotice, nowMs: number): void {
    const state = this.slots.get(slot);
    if (!isHeld(state) || this.lastClosed.get(slot) === runId) return;
    const known = state.holder?.runId === runId ? state.holder : undefined;
    const untilMs = known?.untilMs ?? (givesWay ? nowMs + graceMs + LATE_MS : undefined);
    const holder = { runId, graceMs, priorityKey, untilMs };
    if (state.at !== 'offered') this.slots.set(slot, { ...state, holder });
    else if (state.answersByMs !== undefined) {
      // The turn was used. Or another acquirer was faster, and the waiter will say so.
      this.dropTicket(state);
      const probeAtMs = nowMs + probeAfterMs(0, this.slots.size);
      this.slots.set(slot, { at: 'held', sinceMs: nowMs, probeAtMs, answersByMs: state.answersByMs, holder });
    }
  }

  /** A permit that was asked to give way has ended: another acquirer may have the slot. */
  notThere(slot: string, runId: string): void {
    const state = this.slots.get(slot);
    if (isHeld(state) && state.holder?.runId === runId) this.forget(slot, state);
  }

  override probed(slot: string, held: boolean, nowMs: number): void {
    const before = this.slots.get(slot);
    super.probed(slot, held, nowMs);
    const after = this.slots.get(slot);
    if (before?.at !== 'probing' || after?.at !== 'held') return;
    // An old answer says nothing of a permit that has come since without the queue's knowledge: so it is asked anew.
    const answersByMs = before.asks ? (before.answersByMs ?? nowMs + ANSWERS_WITHIN_MS) : undefined;
    this.slots.set(slot, { ...after, answersByMs, holder: before.holder });
  }

  override dueMs(): number {
    let dueMs = super.dueMs();
    const asking = this.preemptors();
    for (const [slot, state] of asking.length > 0 ? this.slots : []) {
      const nextMs = isHeld(state) && this.isWanted(slot, asking) ? dueOf(state) : undefined;
      if (nextMs !== undefined) dueMs = Math.min(dueMs, nextMs);
    }
    return dueMs;
  }

  protected override *moves(nowMs: number): Generator<QueueCommand> {
    this.asking = this.preemptors();
    yield* super.moves(nowMs);
    this.asking = this.preemptors(); // some have their turn now
    if (this.asking.length === 0) return;
    yield* this.ask(nowMs);
    const wants = (waiter: Ticket, slot: string) => this.wants(waiter, slot);
    for (const { holder, priorityKey } of requests(this.asking, this.holders(), wants, (it) => this.isSettled(it))) {
      const { slot, givesWay, ...known } = holder;
      const state = this.slots.get(slot);
      if (!isHeld(state)) continue;
      this.slots.set(slot, { ...state, holder: { ...known, untilMs: nowMs + known.graceMs + LATE_MS } });
      yield { do: 'preempt', slot, runId: known.runId, priorityKey };
    }
  }

  protected override probe(slot: string): QueueCommand & { do: 'probe' } {
    const before = this.slots.get(slot);
    const command = super.probe(slot);
    const state = this.slots.get(slot);
    if (state?.at !== 'probing') return command;
    const { answersByMs, holder } = before?.at === 'held' ? before : {};
    const asks = this.isWanted(slot, this.asking) || undefined;
    this.slots.set(slot, { ...state, asks, answersByMs, holder });
    return { ...command, asks };
  }

  /** Asks the holders that were not asked since a waiter asks, and lets go of old answers. */
  private *ask(nowMs: number): Generator<QueueCommand> {
    for (const [slot, state] of this.slots) {
      if (!isHeld(state) || !this.isWanted(slot, this.asking)) continue;
      if ((dueOf(state) ?? nowMs + 1) <= nowMs) this.pass(slot, state);
      const now = this.slots.get(slot);
      if (!isHeld(now) || now.answersByMs !== undefined) continue;
      if (now.at === 'held') yield this.probe(slot);
      else if (now.at === 'offered') {
        const claimedMs = now.untilMs - OFFER_TIMEOUT_MS + CLAIMED_WITHIN_MS;
        this.slots.set(slot, { ...now, answersByMs: nowMs < claimedMs ? claimedMs : nowMs + ANSWERS_WITHIN_MS });
        if (nowMs >= claimedMs) yield { do: 'ask', slot };
      }
    }
  }

  /** The time for an answer is over, which an offered slot may still get; or the time by which a holder should have given way. */
  private pass(slot: string, state: HeldState): void {
    if (state.holder || state.at === 'offered') this.forget(slot, state);
    else this.slots.set(slot, { ...state, answersByMs: NO_ANSWER });
  }

  private forget(slot: string, state: HeldState): void {
    this.slots.set(slot, { ...state, answersByMs: undefined, holder: undefined });
  }

  /** Whether no answer is to come from a slot that the waiter would take. */
  private isSettled(waiter: Ticket): boolean {
    for (const [slot, state] of this.slots) {
      if (!isHeld(state) || state.at === 'offered' || state.holder) continue;
      if (state.answersByMs !== NO_ANSWER && this.wants(waiter, slot)) return false;
    }
    return true;
  }

  private holders(): Holder[] {
    const holders: Holder[] = [];
    for (const [slot, state] of this.slots) {
      if (!isHeld(state) || !state.holder) continue;
      const { untilMs, ...known } = state.holder;
      holders.push({ slot, ...known, givesWay: untilMs !== undefined });
    }
    return holders;
  }

  private preemptors(): readonly Ticket[] {
    return this.tickets.preempting === 0 ? [] : [...this.waiting()].filter(({ preempt }) => preempt);
  }

  private isWanted(slot: string, waiters: readonly Ticket[]): boolean {
    return waiters.some((waiter) => this.wants(waiter, slot));
  }
}

/** No answer has come in time. */
const NO_ANSWER = 0;

function isHeld(state: SlotState | undefined): state is HeldState {
  return state?.at === 'held' || state?.at === 'probing' || state?.at === 'offered';
}

/** When something is to be done with a slot that was asked. */
function dueOf({ holder, answersByMs }: AskedSlot): number | undefined {
  return holder ? holder.untilMs : answersByMs || undefined;
}
