import type { Ticket } from '../../shared/protocol';

/** If a turn gets no reply for this long, the queue takes it for used, or its waiter for dead. */
export const OFFER_TIMEOUT_MS = 5_000;

/** … and for this long where others wait for the slot. It grows up to the former where slow waiters turn out to live. */
export const CONTENDED_TIMEOUT_MS = 1_000;

/** The queue remembers so many waiters that have let a turn pass. */
const MAX_SILENT = 2_000;

/**
 * How long the queue waits for a word of a turn, and which waiters have sent none. A waiter is a client by its identity, or a
 * Workflow.
 *
 *     --turn overdue--> suspected --a probe finds no permit--> silent --any word of it--> not silent
 *                          '--a probe finds a permit, or any word of it--> not suspected
 *
 * A word proves that the waiter itself has acted: it lines up, sends its ticket again, has been beaten to a slot, leaves, or releases a
 * permit. What comes from the Workflow in which a client's ticket waits proves nothing of the client, and a permit whose lease has ended
 * proves nothing of its holder. So a dead waiter has one turn, however many tickets it has.
 */
export class OfferTimeouts {
  private readonly suspected = new Set<string>();
  /** They have their turns after all others. */
  private readonly silent = new Set<string>();
  private contendedMs = CONTENDED_TIMEOUT_MS;

  /** @param changed is told which tickets' waiter has become silent, or is not silent any more */
  constructor(private readonly changed: (isOf: (ticket: Ticket) => boolean) => void) {}

  /** Until when the queue waits for a word of a turn where others wait for the slot. @param untilMs … and where nobody does */
  shortened(untilMs: number): number {
    return untilMs - OFFER_TIMEOUT_MS + this.contendedMs;
  }

  /** The waiter lives. @returns whether the queue suspected it, or took it for silent */
  heard(waiter: string): boolean {
    const wasSuspected = this.suspected.delete(waiter);
    const wasSilent = this.silent.delete(waiter);
    if (wasSilent) this.tell(waiter);
    return wasSilent || wasSuspected;
  }

  /** The turn of the ticket is overdue: a probe of the slot will tell whether it was used. @returns its waiter */
  suspect(ticket: Ticket): string {
    const waiter = waiterOf(ticket);
    this.suspected.add(waiter);
    return waiter;
  }

  /** The probe has found a permit. */
  clear(waiter: string): void {
    this.suspected.delete(waiter);
  }

  /** The probe has found no permit. */
  letPass(waiter: string): void {
    if (!this.suspected.delete(waiter)) return;
    this.silent.add(waiter);
    this.tell(waiter);
    const [oldest] = this.silent;
    if (this.silent.size <= MAX_SILENT || oldest === undefined) return;
    this.silent.delete(oldest);
    this.tell(oldest);
  }

  private tell(waiter: string): void {
    this.changed((ticket) => waiterOf(ticket) === waiter);
  }

  isSilent(waiter: string): boolean {
    return this.silent.has(waiter);
  }

  /** A waiter uses its turn. If the queue has taken the waiter for dead, it is slow, and the queue waits longer from now on. */
  heardLate(waiter: string): void {
    if (this.heard(waiter)) this.contendedMs = Math.min(OFFER_TIMEOUT_MS, 2 * this.contendedMs);
  }

  /** A word of a turn has come in time. */
  shrink(): void {
    this.contendedMs = Math.max(CONTENDED_TIMEOUT_MS, 0.9 * this.contendedMs);
  }
}

/** A ticket's waiter. */
export function waiterOf({ identity, waiter }: Ticket): string {
  return identity ?? waiter.workflowId;
}
