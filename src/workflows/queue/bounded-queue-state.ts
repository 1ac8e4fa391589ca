import type { Ticket } from '../../shared/protocol';
import type { SlotState } from '../../shared/queue-view';
import { Demand } from './demand';
import type { QueueCommand } from './queue-command';
import { QueueState } from './queue-state';

/**
 * A {@link QueueState} whose tickets may bring a bound on the line (`maxWaiting`). A ticket that comes to a full line is refused. But
 * those in line may be about to have their turns, where the queue does not know yet which slots are free. Then the ticket stands in
 * line, in doubt, until that is known.
 */
export class BoundedQueueState extends QueueState {
  /** In the order of their arrival. */
  private readonly doubtful = new Set<string>();

  override enqueue(ticket: Ticket, hadTurn = false): boolean {
    const { id, maxWaiting = Number.POSITIVE_INFINITY } = ticket;
    const isFull = !hadTurn && !this.ticket(id) && this.waitingCount >= maxWaiting;
    if (isFull && !this.mayBeFree(ticket)) return false;
    const isTaken = super.enqueue(ticket, hadTurn);
    if (isFull && isTaken) this.doubtful.add(id);
    return isTaken;
  }

  /** The tickets in doubt, which the next run of the queue is told with {@link doubt}. */
  get inDoubt(): string[] {
    return [...this.doubtful];
  }

  doubt(ticketIds: readonly string[]): void {
    for (const id of ticketIds) this.doubtful.add(id);
  }

  protected override *moves(nowMs: number): Generator<QueueCommand> {
    yield* super.moves(nowMs);
    if (this.doubtful.size > 0) yield* this.settleDoubts(); // what is free has been given by now
  }

  private *settleDoubts(): Generator<QueueCommand> {
    const waiting = new Set(this.waiting());
    let others = [...waiting].filter(({ id }) => !this.doubtful.has(id)).length;
    const mayBeFree = new Map<Ticket['slots'], boolean>();
    for (const id of this.doubtful) {
      const ticket = this.ticket(id);
      const isWaiting = ticket !== undefined && waiting.has(ticket);
      if (isWaiting) {
        if (!mayBeFree.has(ticket.slots)) mayBeFree.set(ticket.slots, this.mayBeFree(ticket));
        if (mayBeFree.get(ticket.slots)) continue;
      }
      this.doubtful.delete(id);
      if (!isWaiting) continue; // it has had its turn, or has left
      if (others < (ticket.maxWaiting ?? Number.POSITIVE_INFINITY)) {
        others++;
        continue;
      }
      this.declined(id);
      yield { do: 'refuse', ticket };
    }
  }

  /** Whether a slot that it would take is free, or nobody knows. */
  private mayBeFree(ticket: Ticket): boolean {
    for (const slot of this.slotsOfInterest(new Demand([ticket]))) {
      if (!this.wants(ticket, slot)) continue;
      const state = this.slots.get(slot);
      if (!state || !isTaken(state)) return true;
    }
    return false;
  }
}

/** Whether somebody has it, and goes on: it is neither closing nor on its way back from the queue. */
function isTaken(state: SlotState): boolean {
  if (state.at === 'probing') return state.heldSinceMs !== undefined && !state.closed;
  return state.at === 'offered' || (state.at === 'held' && state.runId === undefined);
}
