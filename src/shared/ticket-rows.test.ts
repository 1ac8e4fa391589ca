import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import type { Ticket } from './protocol';
import { readTickets } from './queue-view';
import { rowBytes, tableOf } from './ticket-rows';

function ticket(fields: Partial<Ticket> = {}): Ticket {
  const waiter = { workflowId: `order-${randomUUID()}`, runId: randomUUID() };
  return { id: randomUUID(), waiter, slots: 3, sinceMs: 1_795_565_916_301, ...fields };
}

/** Without the fields that are absent. */
const plain = (tickets: Iterable<Ticket>) => JSON.parse(JSON.stringify([...tickets])) as Ticket[];

test('a table has all that the tickets have, in their order', () => {
  const names = ['gpu-a', 'gpu-b'];
  const tickets = [
    ticket(),
    ticket({ slots: names, priorityKey: 1, fairnessKey: 'é', fairnessWeight: 0.5, identity: '4711@host' }),
    ticket({
      slots: [...names],
      answer: true,
      maxWaiting: 7,
      whenFull: 'drop-oldest',
      preempt: true,
      pool: { id: 'p', nth: 2 },
    }),
    ticket({ slots: names, permits: 3, kept: 0, inherits: ['other'], givesWay: true }),
    ticket({ id: 'no UUID', waiter: { workflowId: 'w', runId: randomUUID() } }),
    ticket({ id: 'A'.repeat(22) }),
    ticket({ id: '=' }),
  ];
  const { rows, lists } = tableOf(tickets);
  const read = readTickets('r', JSON.parse(JSON.stringify({ rows, lists })));
  assert.deepEqual(plain(read.values()), plain(tickets));
  assert.deepEqual(lists, [3, names, names]);
});

test('a waiter without a run ID has none in a table', () => {
  const one = { ...ticket(), waiter: { workflowId: 'w' } } as unknown as Ticket;
  assert.deepEqual(plain(readTickets('r', JSON.parse(JSON.stringify(tableOf([one])))).values()), plain([one]));
});

test('what is malformed in a table is left out, and nothing else', () => {
  const sound = ticket();
  const { rows, lists } = tableOf([sound]);
  const [row = []] = rows;
  const changed = (at: number, value: unknown) => [...row].map((it, index) => (index === at ? value : it));
  const bad = [null, 5, [], [1, 2, 3], changed(3, 9), changed(1, ''), changed(2, '=x'), changed(4, -1)];
  const read = readTickets('r', { rows: [...bad, row], lists });
  assert.deepEqual(plain(read.values()), plain([sound]));
  for (const table of [{ rows: 5 }, { rows, lists: 5 }, { rows, lists: [['']] }, { rows, lists: [0] }])
    assert.equal(readTickets('r', table).size, 0, JSON.stringify(table));
});

test('a row is counted with its length', () => {
  for (const it of [ticket(), ticket({ identity: 'é', priorityKey: 2 }), ticket({ id: 'x' })])
    assert.equal(
      rowBytes(it),
      Buffer.byteLength(JSON.stringify(tableOf([it]).rows[0])) + '9999'.length - '0'.length + ','.length,
    );
});
