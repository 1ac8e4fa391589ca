import type { OverrideInput, OverrideState } from '../../shared/operator-protocol';
import type { Ticket } from '../../shared/protocol';
import type { QueueView, SlotState } from '../../shared/queue-view';
import { slotNames } from '../../shared/slots';
import { BoundedQueueState } from './bounded-queue-state';
import { CapacityOverride } from './capacity-override';
import type { Demand } from './demand';
import { probeAfterMs } from './probe-interval';
import type { QueueCommand } from './queue-command';

/** How often the queue renews its claim on a slot that is out of use, and so finds out that somebody has terminated it. */
export const DRAIN_RENEWAL_MS = 20 * 60_000;

/**
 * A {@link BoundedQueueState} whose slots an operator adds and takes out of use. The queue claims a slot that is out of use (too many,
 * or paused) instead of offering it, and watches that claim like any other:
 *
 *     free --claim sent--> draining --started--> drained --in use again, or nobody names it: release sent--> held
 *                              '--taken--> unknown  '--closing | gone--> free
 *
 * A slot that another queue had claimed before it was terminated answers the first look, and is drained from then on.
 */
export class OperatedQueueState extends BoundedQueueState {
  private readonly override: CapacityOverride;

  constructor(view?: QueueView) {
    super(view);
    this.override = new CapacityOverride(view?.override);
  }

  /** What an operator has set; `undefined` when nothing is. */
  get overridden(): OverrideState | undefined {
    return this.override.current;
  }

  /** An operator changes which slots are in use. @returns what is set now */
  setOverride(input: OverrideInput, nowMs: number): OverrideState {
    // A thousand orders in a moment, each of a thousand names, leave those of the last one.
    for (const [slot, { at }] of this.slots) if (at === 'unseen') this.slots.delete(slot);
    for (const slot of slotNames(input.slots)) if (!this.slots.has(slot)) this.slots.set(slot, { at: 'unseen' });
    return this.override.change(input, nowMs);
  }

  /** No slot that is to be out of use is free, nor is a turn for it under way: each is held, or kept by the queue. */
  get isInForce(): boolean {
    const isKept = (slot: string) => ['held', 'drained'].includes(this.slots.get(slot)?.at ?? 'unknown');
    return this.override.slots().every((slot) => !this.isToDrain(slot) || isKept(slot));
  }

  /** A permit that was asked says that it keeps the slot out of use. The queue that claimed it was terminated: this one adopts it. */
  drained(slot: string, runId: string): void {
    const state = this.slots.get(slot);
    if (state?.at === 'probing') this.slots.set(slot, { ...state, drainedBy: runId }); // the look's own answer is still to come
    if (state?.at !== 'held' || state.runId !== undefined || this.lastClosed.get(slot) === runId) return;
    this.slots.set(slot, { at: 'drained', runId, renewAtMs: 0 });
  }

  override probed(slot: string, held: boolean, nowMs: number): void {
    const before = this.slots.get(slot);
    super.probed(slot, held, nowMs);
    if (before?.at === 'probing' && before.drainedBy !== undefined) this.drained(slot, before.drainedBy);
  }

  /** A claim's answer: the permit's run, or `undefined` when somebody else was faster. */
  claimed(slot: string, runId: string | undefined, nowMs: number): void {
    const state = this.slots.get(slot);
    if (state?.at !== 'draining') return;
    if (runId === undefined) this.slots.delete(slot);
    else if (state.closed.includes(runId)) this.slots.set(slot, { at: 'free' });
    // A run that has ended meanwhile came before ours, or after it and ours is gone: a renewal tells.
    else this.slots.set(slot, { at: 'drained', runId, renewAtMs: state.closed.length ? 0 : nowMs + DRAIN_RENEWAL_MS });
  }

  /** The queue's own claim on a slot has ended without a word: somebody terminated it. */
  gone(slot: string, runId: string): void {
    const state = this.slots.get(slot);
    if (state && 'runId' in state && state.runId === runId) this.slots.set(slot, { at: 'free' });
  }

  /** Nobody waits, nothing is set, and no slot is kept out of use. */
  override get idle(): boolean {
    if (!super.idle || this.override.current) return false;
    for (const { at } of this.slots.values()) if (at === 'draining' || at === 'drained') return false;
    return true;
  }

  /** As {@link BoundedQueueState.enqueue}. One that wants more permits than are in use waits beside the line, and keeps nobody waiting. */
  override enqueue(ticket: Ticket, hadTurn = false): boolean {
    if (this.override.hasEnoughFor(ticket)) return super.enqueue(ticket, hadTurn);
    this.declined(ticket.id);
    return false;
  }

  /** As {@link QueueState.next}, when a pause has ended whose time is over. */
  override next(nowMs: number, room = Number.POSITIVE_INFINITY): QueueCommand[] {
    this.override.expire(nowMs);
    const refusals = this.refusals(room);
    return [...refusals, ...super.next(nowMs, room - refusals.length)];
  }

  /** Takes the tickets out of the line that want more permits than an operator has left. */
  private refusals(room: number): QueueCommand[] {
    if (this.override.current?.capacity === undefined) return [];
    const refused = [...this.tickets.values()].filter((ticket) => !this.override.hasEnoughFor(ticket)).slice(0, room);
    for (const { id } of refused) this.declined(id);
    return refused.map((ticket) => ({ do: 'refuse', ticket }));
  }

  override dueMs(): number {
    let dueMs = Math.min(super.dueMs(), this.override.endsAtMs);
    for (const state of this.slots.values()) if (state.at === 'drained') dueMs = Math.min(dueMs, state.renewAtMs);
    return dueMs;
  }

  override view(): QueueView {
    const { current } = this.override;
    return { ...super.view(), ...(current && { override: current }) };
  }

  protected override close(slot: string, state: SlotState, runId: string): void {
    if (state.at === 'draining') state.closed.push(runId);
    // Old news, or the queue's own claim has ended without a word: a renewal tells.
    else if (state.at === 'drained' && state.runId !== runId) this.slots.set(slot, { ...state, renewAtMs: 0 });
    else super.close(slot, state, runId);
  }

  protected override moveOn(
    slot: string,
    state: SlotState,
    waiting: Set<Ticket>,
    demand: Demand,
    nowMs: number,
  ): QueueCommand | undefined {
    if (state.at === 'unseen') return this.probe(slot);
    if (state.at === 'drained') return this.keep(slot, state, nowMs);
    if (state.at === 'free' && this.isToDrain(slot)) {
      this.slots.set(slot, { at: 'draining', closed: [] });
      return { do: 'drain', slot };
    }
    return super.moveOn(slot, state, waiting, demand, nowMs);
  }

  protected override slotsOfInterest(demand: Demand): Iterable<string> {
    if (!this.override.current) return super.slotsOfInterest(demand);
    const slots = [...super.slotsOfInterest(demand), ...this.override.slots(), ...this.tickets.demand.slots()];
    return new Set(slots.filter((slot) => this.isOfInterest(slot, demand)));
  }

  protected override isOfInterest(slot: string, demand: Demand): boolean {
    if (!this.override.isInUse(slot)) return this.isToDrain(slot);
    return super.isOfInterest(slot, demand) || (demand.counts && this.override.isAdded(slot));
  }

  protected override wants(ticket: Ticket, slot: string): boolean {
    return this.override.isInUse(slot) && this.override.wants(ticket, slot);
  }

  /** Of the slots out of use, those that an acquirer may try. The queue just does not offer the others. */
  private isToDrain(slot: string): boolean {
    return !this.override.isInUse(slot) && (this.override.isDeployed(slot) || this.tickets.demand.has(slot));
  }

  /** What to do with a drained slot. The queue follows its release like anybody's. */
  private keep(slot: string, state: SlotState & { at: 'drained' }, nowMs: number): QueueCommand | undefined {
    const { runId, renewAtMs } = state;
    if (!this.isToDrain(slot)) {
      this.slots.set(slot, { at: 'held', sinceMs: nowMs, probeAtMs: nowMs + probeAfterMs(0, 1), runId });
      return { do: 'release', slot, runId };
    }
    if (renewAtMs > nowMs) return undefined;
    this.slots.set(slot, { ...state, renewAtMs: nowMs + DRAIN_RENEWAL_MS });
    return { do: 'renew', slot, runId };
  }
}
