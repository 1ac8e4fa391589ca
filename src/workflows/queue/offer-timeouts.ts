import type { Ticket } from '../../shared/protocol';

/** If a turn gets no reply for this long, the queue takes it for used, or its waiter for dead. */
export const OFFER_TIMEOUT_MS = 5_000;

/** … and for this long if others wait for the slot. It grows up to the former if slow waiters turn out to be alive. */
export const CONTENDED_TIMEOUT_MS = 1_000;

/** How many waiters that have let a turn pass the queue remembers. */
const MAX_SILENT = 2_000;

/**
 * How long the queue waits for the reply to a turn, and which waiters have sent none. A waiter is a client, known by its identity, or a
 * Workflow.
 *
 *     --turn overdue--> suspected --a probe finds no permit--> silent --any reply of it--> not silent
 *                          '--a probe finds a permit, or any reply of it--> not suspected
 *
 * A reply proves that the waiter itself has acted: it joins the queue, sends its ticket again, has been beaten to a slot, leaves, or releases a
 * permit. A message from the Workflow in which a client's ticket waits proves nothing about the client, and a permit whose lease has ended
 * proves nothing about its holder. So a dead waiter has one turn, however many tickets it has.
 */
export class OfferTimeouts {
  private readonly suspected = new Set<string>();
  /** Waiters that have let a turn pass: they have their turns after all others. */
  private readonly silent = new Set<string>();
  private contendedMs = CONTENDED_TIMEOUT_MS;

  /** @param changed called with a test for the tickets whose waiter has become silent, or is no longer silent */
  constructor(private readonly changed: (isOf: (ticket: Ticket) => boolean) => void) {}

  /** Until when the queue waits for the reply to a turn if others wait for the slot. @param untilMs … and if no other waits */
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

  /** A waiter uses its turn. If the queue has taken the waiter for dead, the waiter is only slow, and the queue waits longer from now on. */
  heardLate(waiter: string): void {
    if (this.heard(waiter)) this.contendedMs = Math.min(OFFER_TIMEOUT_MS, 2 * this.contendedMs);
  }

  /** The reply to a turn has come in time. */
  shrink(): void {
    this.contendedMs = Math.max(CONTENDED_TIMEOUT_MS, 0.9 * this.contendedMs);
  }
}

/** A ticket's waiter. */
export function waiterOf({ identity, waiter }: Ticket): string {
  return identity ?? waiter.workflowId;
}
