import type { InUse } from './in-use';
import { probeAfterMs, type QueueCommand } from './queue-command';
import type { SlotAt, SlotTable } from './slot-table';
import type { Wanted } from './wanted';

/** How often the queue renews its claim on a slot that is out of use, and so finds out whether the claim was terminated. */
export const DRAIN_RENEWAL_MS = 20 * 60_000;

/**
 * Keeps slots out of use. The queue claims such a slot instead of offering it, and watches that claim like any other:
 *
 *     free --claim sent--> draining --started--> drained --in use again, or no ticket names it: release sent--> held
 *                              '--taken--> unknown  '--closing | gone--> free
 *
 * A slot that another queue had claimed before it was terminated answers the first probe, and is drained from then on.
 */
export class Drains {
  constructor(
    private readonly slots: SlotTable,
    private readonly inUse: InUse,
    private readonly wanted: Wanted,
  ) {}

  /** Whether no slot that is to be out of use is free or offered: a holder has it, or the queue keeps it. */
  get isInForce(): boolean {
    const isKept = (slot: string) => ['held', 'drained'].includes(this.slots.get(slot).at);
    return this.inUse.names().every((slot) => !this.wanted.isOutOfUse(slot) || isKept(slot));
  }

  /** Whether the queue keeps no slot out of use, and claims none. */
  get isEmpty(): boolean {
    for (const _ of this.slots.in('draining', 'drained')) return false;
    return true;
  }

  claim(slot: string): QueueCommand {
    this.slots.drain(slot);
    return { do: 'drain', slot };
  }

  /** A claim's answer: the permit's run, or `undefined` if an acquirer was faster. */
  claimed(slot: string, runId: string | undefined, nowMs: number): void {
    const state = this.slots.get(slot);
    if (state.at !== 'draining') return;
    if (runId === undefined) this.slots.forget(slot);
    else if (state.closed.includes(runId)) this.slots.free(slot);
    // A run that has ended meanwhile came before ours. Or it came after ours, which is gone: a renewal tells.
    else this.slots.keepOut(slot, runId, state.closed.length ? 0 : nowMs + DRAIN_RENEWAL_MS);
  }

  /** A permit keeps the slot out of use. The queue that claimed it was terminated: this one adopts the claim. */
  adopt(slot: string, runId: string): void {
    const state = this.slots.get(slot);
    if (state.at === 'held' && state.runId === undefined) this.slots.keepOut(slot, runId, 0);
  }

  /** What to do with a drained slot. The queue follows the release of its own permit like any other release. */
  keep(slot: string, { runId, renewAtMs }: SlotAt<'drained'>, nowMs: number): QueueCommand | undefined {
    if (!this.wanted.isOutOfUse(slot)) {
      this.slots.hold(slot, { sinceMs: nowMs, probeAtMs: nowMs + probeAfterMs(0, 1), runId });
      return { do: 'release', slot, runId };
    }
    if (renewAtMs > nowMs) return undefined;
    this.slots.keepOut(slot, runId, nowMs + DRAIN_RENEWAL_MS);
    return { do: 'renew', slot, runId };
  }

  /** The queue's own claim on a slot has ended without a message: it was terminated. */
  gone(slot: string, runId: string): void {
    const state = this.slots.get(slot);
    if ('runId' in state && state.runId === runId) this.slots.free(slot);
  }
}
