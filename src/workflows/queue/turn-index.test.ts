import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Luck } from '../../../test/reliability/chaos/random';
import type { Ticket } from '../../shared/protocol';
import { wantsSlot } from '../../shared/slots';
import { TurnOrder } from '../../shared/turn-order';
import { TurnIndex } from './turn-index';

const LISTS = [1, 2, 3, ['0', 'x'], ['x', 'y']];

test('it chooses as a walk through all tickets would: 500 lines by chance', () => {
  for (let seed = 1; seed <= 500; seed++) {
    const luck = new Luck(`${seed}`);
    const roll = (sides: number) => luck.whole(0, sides - 1);
    const [order, walked] = [new TurnOrder(), new TurnOrder()];
    const isSilent = ({ identity }: Ticket) => identity === 'silent';
    const index = new TurnIndex(order, isSilent);
    const all = new Map<string, Ticket>();
    for (let step = 0; step < 120; step++) {
      const one = roll(10);
      if (one < 5) {
        const fields = { fairnessKey: ['', 'a', 'b'][roll(3)], fairnessWeight: 1 + roll(3), priorityKey: 1 + roll(3) };
        const rare = {
          kept: roll(8) === 0 ? 1 : undefined,
          pool: roll(4) === 0 ? { id: 'p', nth: 1 + roll(3) } : undefined,
        };
        const identity = roll(5) === 0 ? 'silent' : 'live';
        const slots = LISTS[roll(LISTS.length)] ?? 1;
        const ticket: Ticket = {
          ...{ id: `${step}`, waiter: { workflowId: 'w', runId: 'r' }, slots, sinceMs: roll(20), identity },
          ...{ ...fields, ...rare },
        };
        all.set(ticket.id, ticket);
        index.add(ticket, step);
      } else if (one < 6) {
        const [id = ''] = [...all.keys()].slice(roll(all.size + 1));
        all.delete(id);
        index.remove(id);
      } else {
        const slot = ['0', '1', '2', 'x', 'y'][roll(5)] ?? '';
        const wanting = [...all.values()].filter(({ slots }) => wantsSlot(slots, slot));
        const expected = walked.first(wanting.filter((it) => !isSilent(it))) ?? walked.first(wanting);
        const first = index.first((slots) => wantsSlot(slots, slot));
        assert.equal(first?.id, expected?.id, `seed ${seed}, step ${step}`);
        if (!first) continue;
        all.delete(first.id);
        index.remove(first.id);
        for (const each of [order, walked]) each.charge(first);
      }
      assert.equal(index.size, all.size);
      const best = [...all.values()].reduce(
        (least, { priorityKey = 3 }) => Math.min(least, priorityKey),
        Number.POSITIVE_INFINITY,
      );
      assert.equal(index.bestPriority, best);
      for (const slot of ['0', '1', '2', 'x', 'y'])
        assert.equal(
          index.slots.has(slot),
          [...all.values()].some(({ slots }) => wantsSlot(slots, slot)),
        );
    }
  }
});
