import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { CallerLine, LineEntry } from './caller-line';

class Caller extends LineEntry {}

test('by priority, then arrival; each may leave; deadlines come in their order', () => {
  const deed = fc.oneof(
    fc.record({ do: fc.constant('add' as const), priority: fc.integer({ min: 1, max: 5 }), due: fc.nat(50) }),
    fc.record({ do: fc.constant('leave' as const), nth: fc.nat(30) }),
    fc.record({ do: fc.constant('shift' as const) }),
    fc.record({ do: fc.constant('overdue' as const), nowMs: fc.nat(50) }),
  );
  fc.assert(
    fc.property(fc.array(deed, { maxLength: 200 }), (deeds) => {
      const line = new CallerLine<Caller>();
      let model: Caller[] = [];
      const gone = (caller: Caller | undefined) => {
        model = model.filter((it) => it !== caller);
      };
      for (const deed of deeds) {
        if (deed.do === 'add') {
          const caller = new Caller(deed.priority, deed.due > 40 ? Number.POSITIVE_INFINITY : deed.due);
          line.add(caller);
          model.push(caller);
          model.sort((a, b) => a.priorityKey - b.priorityKey); // stable
        } else if (deed.do === 'leave') {
          const caller = model[deed.nth] ?? new Caller(1, 1);
          assert.equal(line.delete(caller), model.includes(caller));
          gone(caller);
        } else if (deed.do === 'shift') {
          assert.equal(line.shift(), model[0]);
          gone(model[0]);
        } else {
          const late = line.overdue(deed.nowMs);
          assert.equal(
            late !== undefined,
            model.some(({ deadlineMs }) => deadlineMs <= deed.nowMs),
          );
          if (late) assert.equal(late.deadlineMs, Math.min(...model.map(({ deadlineMs }) => deadlineMs)));
        }
        assert.equal(line.size, model.length);
        assert.equal(line.first, model[0]);
        assert.equal(line.dueMs, Math.min(Number.POSITIVE_INFINITY, ...model.map(({ deadlineMs }) => deadlineMs)));
      }
    }),
    { numRuns: 500 },
  );
});
