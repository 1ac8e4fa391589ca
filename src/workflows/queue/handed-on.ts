import { isRunId } from '../../shared/permit-id';
import type { QueueInput, QueueView, ShownView, SlotState } from '../../shared/protocol';
import { readOverride, readTickets } from '../../shared/queue-view';
import { tableOf, ticketsOf } from '../../shared/ticket-rows';
import { fieldsOf } from '../../shared/untyped';
import { areSlots } from '../../shared/wire-input';

// What one run of the queue hands to the next. The next run trusts it as its own memory, but for what would end its worker
// (docs/security.md#who-is-trusted).

/** The query shows so many tickets as objects, which others read. */
const MAX_SHOWN = 1_000;

/** As the query shows it: the names of each list of slots stand there once. */
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

/** The argument of the next run. The IDs are those of tickets in the view. */
export function handOn(state: { view(): QueueView; inDoubt: string[] }, unanswered: Iterable<string>): QueueInput {
  const view = state.view();
  const rows = new Map(view.tickets.map(({ id }, row) => [id, row]));
  const rowsOf = (ids: Iterable<string>) => [...ids].flatMap((id) => rows.get(id) ?? []);
  return { tickets: [], view: asTable(view), unanswered: rowsOf(unanswered), inDoubt: rowsOf(state.inDoubt) };
}

/** What a run was handed: its memory, and of the tickets in it, those that are owed an answer, and those in doubt. */
export interface HandedOn {
  view: QueueView;
  unanswered: string[];
  inDoubt: string[];
}

/** Reads what {@link handOn} gave, or an earlier or a later version of it. */
export function readHandedOn(resource: string, { view, unanswered, inDoubt }: Partial<QueueInput>): HandedOn {
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
  };
}

const HANDED_ON: readonly SlotState['at'][] = ['free', 'unseen', 'held', 'offered', 'drained'];

/**
 * Of any other slot, the queue knows nothing, and asks. A run continues as new only when no answer is due: so none waits for an answer that
 * an earlier run with a bug was owed. Another version may know other states. And what is no run ID can't be sent to the server.
 */
function isKnown(state: SlotState): boolean {
  const { runId, holder } = state as { runId?: string; holder?: { runId: string } };
  return HANDED_ON.includes(state.at) && [runId, holder?.runId].every((it) => it === undefined || isRunId(it));
}
