import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { Ticket } from './protocol';
import { TurnOrder } from './turn-order';

let made = 0;
function ticket(fields: Partial<Ticket> = {}): Ticket {
  made++;
  return { id: `t${made}`, waiter: { workflowId: 'w', runId: 'r' }, slots: 1, sinceMs: made, ...fields };
}

/** The tickets in the order in which they are served, until nobody waits. */
function serveAll(tickets: Ticket[]): Ticket[] {
  return new TurnOrder().sort(tickets);
}

test('equals are served in order of arrival, and of one millisecond in order of listing', () => {
  const [a, b, c, d] = [ticket({ sinceMs: 2 }), ticket({ sinceMs: 1 }), ticket({ sinceMs: 2 }), ticket({ sinceMs: 0 })];
  assert.deepEqual(serveAll([a, b, c, d]), [d, b, a, c]);
});

test('a lower priorityKey goes first, 3 where none is given', () => {
  const [none, low, high] = [ticket(), ticket({ priorityKey: 5 }), ticket({ priorityKey: 1 })];
  const asTemporal = ticket({ priorityKey: 0 });
  assert.deepEqual(serveAll([none, low, high, asTemporal]), [high, none, asTemporal, low]);
});

test('a permit pool that has permits goes behind those that have none; of equals, arrival', () => {
  const [second, first, late, acquirer] = [2, 1, 1, undefined].map((nth) =>
    ticket({ pool: nth === undefined ? undefined : { id: 'pool', nth } }),
  ) as [Ticket, Ticket, Ticket, Ticket];
  assert.deepEqual(serveAll([acquirer, late, first, second]), [first, late, acquirer, second]);
  const urgent = ticket({ priorityKey: 1, pool: { id: 'pool', nth: 9 } });
  assert.deepEqual(serveAll([first, urgent]), [urgent, first]);
});

test('while all keys wait, each is served in proportion to its weight, to within one turn', () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 2, maxLength: 5 }), (weights) => {
      const rounds = 40;
      const tickets = weights.flatMap((weight, key) =>
        Array.from({ length: rounds * weight }, () => ticket({ fairnessKey: `k${key}`, fairnessWeight: weight })),
      );
      const total = weights.reduce((sum, weight) => sum + weight);
      const served = new Map<string, number>();
      for (const [turn, { fairnessKey = '' }] of serveAll(tickets).entries()) {
        served.set(fairnessKey, (served.get(fairnessKey) ?? 0) + 1);
        for (const [key, weight] of weights.entries()) {
          const due = ((turn + 1) * weight) / total;
          const got = served.get(`k${key}`) ?? 0;
          assert.ok(Math.abs(got - due) <= weights.length, `after ${turn + 1} turns k${key} had ${got}, due ${due}`);
        }
      }
    }),
    { numRuns: 30 },
  );
});

test('a key that was away gets no turns for the time when it did not wait', () => {
  const order = new TurnOrder();
  const busy = Array.from({ length: 100 }, () => ticket({ fairnessKey: 'busy' }));
  for (const turn of busy.slice(0, 50)) order.charge(turn);
  const waiting = new Set([...busy.slice(50), ...Array.from({ length: 50 }, () => ticket({ fairnessKey: 'new' }))]);
  const first20 = Array.from({ length: 20 }, () => {
    const next = order.first(waiting) ?? assert.fail();
    waiting.delete(next);
    order.charge(next);
    return next.fairnessKey;
  });
  const newcomers = first20.filter((key) => key === 'new').length;
  assert.ok(newcomers >= 9 && newcomers <= 11, `${newcomers} of 20`);
});

test('a refunded turn leaves the order as if it had not been', () => {
  const [a1, a2, b1] = [ticket({ fairnessKey: 'a' }), ticket({ fairnessKey: 'a' }), ticket({ fairnessKey: 'b' })];
  const order = new TurnOrder();
  order.charge(a1);
  assert.equal(order.first([a2, b1]), b1);
  order.refund(a1);
  assert.equal(order.first([a2, b1]), a2);
});

test('shares survive being handed to the next run', () => {
  const [a1, a2, b1] = [ticket({ fairnessKey: 'a' }), ticket({ fairnessKey: 'a' }), ticket({ fairnessKey: 'b' })];
  const order = new TurnOrder();
  order.charge(a1);
  const next = new TurnOrder(JSON.parse(JSON.stringify(order.shares())));
  assert.equal(next.first([a2, b1]), b1);
});

test('a flood of priorities and keys leaves no more than 100 levels, and 1,000 keys in all: the last used, and those furthest ahead', () => {
  const order = new TurnOrder();
  for (let key = 1; key <= 300; key++) order.charge(ticket({ priorityKey: key }));
  assert.deepEqual(
    order.shares().map(([priorityKey]) => priorityKey),
    Array.from({ length: 100 }, (_, n) => 201 + n),
  );
  const heavy = ticket({ priorityKey: 300, fairnessKey: 'ahead', fairnessWeight: 0.01 });
  order.charge(heavy);
  for (let key = 0; key < 1_500; key++) order.charge(ticket({ priorityKey: 300, fairnessKey: `k${key}` }));
  const keys = order.shares().at(-1)?.[2] ?? [];
  assert.equal(order.shares().flatMap(([, , each]) => each).length, 1_000);
  assert.ok(keys.some(([key]) => key === 'ahead'));
});
