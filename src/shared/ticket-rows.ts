import { ROW_LETTERS, type Ticket, type TicketRow, type TicketTable } from './protocol';
import { fieldsOf, listOf } from './untyped';
import { byteLength } from './utf8';

const FIELDS = Object.entries(ROW_LETTERS) as [keyof typeof ROW_LETTERS, string][];

/** Tickets in half of the space that they take as objects: 10,000 fit into the 2 MB that one run can hand to the next. */
export function tableOf(tickets: Iterable<Ticket>): TicketTable {
  const lists = new Map<Ticket['slots'], number>();
  const rows: TicketRow[] = [];
  for (const ticket of tickets) {
    const list = lists.get(ticket.slots) ?? lists.size;
    lists.set(ticket.slots, list);
    rows.push(rowOf(ticket, list));
  }
  return { rows, lists: [...lists.keys()] };
}

function rowOf(ticket: Ticket, list: number): TicketRow {
  const { id, waiter, sinceMs } = ticket;
  const rare = FIELDS.flatMap(([field, letter]) => (ticket[field] === undefined ? [] : [[letter, ticket[field]]]));
  const runId = waiter.runId ? shortened(waiter.runId) : null;
  const columns = [shortened(id), waiter.workflowId, runId, list, sinceMs] as const;
  return rare.length > 0 ? [...columns, Object.fromEntries(rare)] : [...columns];
}

/** The row's length as JSON, if no list has a number above 9,999. */
export function rowBytes(ticket: Ticket): number {
  return byteLength(JSON.stringify(rowOf(ticket, 9_999))) + 1;
}

/** The tickets of a table, as objects that are still to be checked: any client of the namespace may have made the table. */
export function ticketsOf(rows: unknown): unknown[] {
  return listOf(rows).map((row) => {
    const [id, workflowId, runId, list, sinceMs, rare] = listOf(row);
    const fields = fieldsOf(rare);
    const others = FIELDS.flatMap(([field, letter]) => (fields[letter] === undefined ? [] : [[field, fields[letter]]]));
    const waiter = { workflowId, runId: lengthened(runId) };
    return { id: lengthened(id), waiter, list, sinceMs, ...Object.fromEntries(others) };
  });
}

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;
const DIGITS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
const SHORT = /^[A-Za-z0-9_-]{22}$/;

/** A UUID in 22 characters of 6 bits. Any other text unchanged, after a mark. */
function shortened(text: string): string {
  if (!UUID.test(text)) return `=${text}`;
  const hex = `${text.replaceAll('-', '')}0`; // eleven times three digits, each of which are two characters
  let short = '';
  for (let at = 0; at < hex.length; at += 3) {
    const bits = Number.parseInt(hex.slice(at, at + 3), 16);
    short += `${DIGITS[bits >> 6]}${DIGITS[bits & 63]}`;
  }
  return short;
}

function lengthened(short: unknown): unknown {
  if (typeof short !== 'string') return undefined;
  if (!SHORT.test(short)) return short.startsWith('=') ? short.slice(1) : undefined;
  let hex = '';
  for (let at = 0; at < short.length; at += 2) {
    const bits = (DIGITS.indexOf(short[at] ?? '') << 6) | DIGITS.indexOf(short[at + 1] ?? '');
    hex += bits.toString(16).padStart(3, '0');
  }
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20, 32)].join('-');
}
