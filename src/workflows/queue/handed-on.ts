import { isRunId } from '../../shared/permit-id';
import type { QueueInput, QueueView, ShownView, SlotState, Ticket } from '../../shared/protocol';
import { readOverride, readTickets } from '../../shared/queue-view';
import { tableOf, ticketsOf } from '../../shared/ticket-rows';
import { fieldsOf, listOf } from '../../shared/untyped';
import { byteLength } from '../../shared/utf8';
import { areSlots, readTicket } from '../../shared/wire-input';

// What one run of the queue hands to the next. The next run trusts it as its own memory, except for what would end its worker
// (docs/security.md#who-is-trusted).

/**
 * How many bytes the argument of the next run may have as JSON: what a full line and the shares of fairness keys take at most. The server takes
 * 2 MiB, of which a codec may need some.
 */
const MOST_BYTES = 2_080_000;

/** The query shows up to this many tickets as objects, which other programs read. */
const MAX_SHOWN = 1_000;

/** The view as the query shows it: the names of each list of slots are contained once. */
export function shown(view: QueueView): ShownView {
  if (view.tickets.length > MAX_SHOWN) return asTable(view);
  const lists = new Map<string[], number>();
  const tickets = view.tickets.map(({ slots, ...ticket }) => {
    if (typeof slots === 'number') return { ...ticket, slots };
    const list = lists.get(slots) ?? lists.size;
    lists.set(slots, list);
    return { ...ticket, list };
  });
  return { ...view, tickets, ...(lists.size > 0 && { lists: [...lists.keys()] }) };
}

function asTable({ tickets, ...others }: QueueView): ShownView {
  return { ...others, tickets: [], ...tableOf(tickets) };
}

/**
 * The argument of the next run. If the line leaves no room for all that the queue owes, the rest is left out: waiters that get no answer ask again.
 *
 * @param unanswered the tickets that are owed an answer, by ID; those that are not in the view were refused
 * @param unasked the IDs of tickets in the view
 */
export function handOn(
  state: { view(): QueueView; inDoubt: string[]; outranked: string[] },
  unanswered: ReadonlyMap<string, Pick<Ticket, 'waiter'>> = new Map(),
  unasked: Iterable<string> = [],
): QueueInput {
  const view = state.view();
  const rows = new Map(view.tickets.map(({ id }, row) => [id, row]));
  const rowsOf = (ids: Iterable<string>) => [...ids].flatMap((id) => rows.get(id) ?? []);
  const refused = [...unanswered].flatMap(([id, { waiter }]) => (rows.has(id) ? [] : [{ id, waiter }]));
  const known = {
    tickets: [],
    view: asTable(view),
    unanswered: rowsOf(unanswered.keys()),
    inDoubt: rowsOf(state.inDoubt),
  };
  let room = MOST_BYTES - byteLength(JSON.stringify(known));
  const fitting = <Item>(items: Item[]): Item[] =>
    items.filter((item) => {
      room -= byteLength(JSON.stringify(item)) + 1;
      return room >= 0;
    });
  return {
    ...known,
    outranked: fitting(rowsOf(state.outranked)),
    unasked: fitting(rowsOf(unasked)),
    refused: fitting(refused),
  };
}

/** What a run was handed: its memory, what it owes the waiters of its tickets, and the refused tickets whose waiters it is to tell. */
export interface HandedOn {
  view: QueueView;
  unanswered: string[];
  inDoubt: string[];
  outranked: string[];
  unasked: string[];
  refused: Pick<Ticket, 'id' | 'waiter'>[];
}

/** Reads what {@link handOn} returned in this or another version. */
export function readHandedOn(resource: string, input: Partial<QueueInput>): HandedOn {
  const { view, unanswered, inDoubt, outranked, unasked, refused } = input;
  const tickets = readTickets(resource, view);
  const ids = ticketsOf(view?.rows).map((ticket) => fieldsOf(ticket).id);
  const ofTickets = (named: QueueInput['unanswered'] = []) =>
    named.map((it) => (typeof it === 'number' ? ids[it] : it)).filter((id): id is string => tickets.has(id as string));
  return {
    view: {
      tickets: [...tickets.values()],
      slots: (view?.slots ?? []).filter(([slot, state]) => areSlots(resource, [slot]) && isKnown(state)),
      shares: view?.shares ?? [],
      override: readOverride(resource, view?.override),
      calledAtMs: view?.calledAtMs,
    },
    unanswered: ofTickets(unanswered),
    inDoubt: ofTickets(inDoubt),
    outranked: ofTickets(outranked),
    unasked: ofTickets(unasked),
    refused: listOf(refused).flatMap((it) => {
      const ticket = readTicket(resource, { ...fieldsOf(it), slots: 1, sinceMs: 0 });
      return ticket ? [{ id: ticket.id, waiter: ticket.waiter }] : [];
    }),
  };
}

const HANDED_ON: readonly SlotState['at'][] = ['free', 'unseen', 'held', 'offered', 'drained'];

/**
 * Whether the next run takes over the state of this slot. Any other slot is unknown, so the queue probes it. A run continues as new only if no
 * answer is due: so no slot waits for an answer that an earlier run with a bug was owed. Another version may know other states. And a value
 * that is no run ID can't be sent to the server.
 */
function isKnown(state: SlotState): boolean {
  const { runId, holder } = state as { runId?: string; holder?: { runId: string } };
  return HANDED_ON.includes(state.at) && [runId, holder?.runId].every((it) => it === undefined || isRunId(it));
}
