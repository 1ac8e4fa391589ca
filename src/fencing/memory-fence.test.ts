import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { assertAttempts, runIds } from '../../test/support/tokens';
import {
  FencingToken,
  FutureTokenError,
  MalformedTokenError,
  StaleTokenError,
  UnorderedRunIdError,
  WrongResourceError,
} from '../shared/fencing-token';
import { orderedTokenOf } from './guard';
import { MemoryFence } from './memory-fence';

/** Run IDs of the past: a fence refuses one from the future. */
const pastRun = fc.uuid({ version: 7 }).map((id) => `00${id.slice(2)}`);
const runs = fc.uniqueArray(pastRun, { minLength: 1, maxLength: 6 });
const arrivals = runs.chain((ids) =>
  fc.array(fc.record({ runId: fc.constantFrom(...ids), slot: fc.constantFrom('a', 'b') }), { maxLength: 40 }),
);

test('a token passes when no newer one of its slot came before, and epochs count the new ones', async () => {
  await fc.assert(
    fc.asyncProperty(arrivals, async (list) => {
      const fence = new MemoryFence('r');
      const model = new Map<string, { runId: string; epoch: number }>();
      for (const { slot, runId } of list) {
        const token = FencingToken.from({ resource: 'r', slot, runId });
        const seen = model.get(slot) ?? { runId: '', epoch: 0 };
        if (runId < seen.runId) {
          await assert.rejects(
            fence.admit(token),
            (error) => error instanceof StaleTokenError && error.token === token && error.newest?.runId === seen.runId,
          );
        } else {
          const epoch = runId > seen.runId ? seen.epoch + 1 : seen.epoch;
          model.set(slot, { runId, epoch });
          assert.deepEqual(await fence.admit(String(token)), { token, epoch });
        }
      }
    }),
  );
});

test('however transactions overlap, no work of an older holder ends after a newer one of its slot was admitted', async () => {
  await fc.assert(
    fc.asyncProperty(arrivals, fc.scheduler(), async (list, scheduler) => {
      const fence = new MemoryFence('r');
      const newest = new Map<string, string>();
      const work = list.map(async ({ slot, runId }) => {
        await scheduler.schedule(Promise.resolve());
        await fence.transaction({ resource: 'r', slot, runId }, async () => {
          assert.ok((newest.get(slot) ?? '') <= runId, 'an older holder was let in');
          newest.set(slot, runId);
          await scheduler.schedule(Promise.resolve());
          assert.equal(newest.get(slot), runId, 'somebody else was admitted meanwhile');
        });
      });
      for (const end of await scheduler.waitFor(Promise.allSettled(work))) {
        if (end.status === 'rejected') assert.ok(end.reason instanceof StaleTokenError, String(end.reason));
      }
    }),
  );
});

test('attempts and activities of one holder are told apart, in one epoch', async () => {
  await assertAttempts(new MemoryFence('r'));
});

test('a transaction that throws lets the next one in', async () => {
  const fence = new MemoryFence('r');
  const token = { resource: 'r', slot: '0', runId: '01890a5d-ac96-774b-bcce-b302099a8057' };
  await assert.rejects(
    fence.transaction(token, async () => await Promise.reject(new Error('as asked'))),
    /as asked/,
  );
  assert.equal((await fence.admit(token)).epoch, 1);
});

test('a token from the future is refused, and closes its slot to nobody', async () => {
  const fence = new MemoryFence('r');
  await assert.rejects(fence.admit('r/1/ffffffff-ffff-7fff-bfff-ffffffffffff'), FutureTokenError);
  assert.equal((await fence.admit(`r/1/${runIds(1)[0]}`)).epoch, 1);
});

test("the bound on future tokens is one day of the guard's clock, to the millisecond", () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 2 ** 48 - 1 }), fc.integer({ min: -1_000, max: 1_000 }), (nowMs, offMs) => {
      const drawnAtMs = Math.min(Math.max(0, nowMs + 86_400_000 + offMs), 2 ** 48 - 1);
      const [runId] = runIds(1, drawnAtMs);
      const admit = () => orderedTokenOf('r', `r/0/${runId}`, nowMs);
      if (drawnAtMs <= nowMs + 86_400_000) assert.equal(admit().drawnAtMs, drawnAtMs);
      else {
        assert.throws(
          admit,
          (error) => error instanceof FutureTokenError && error.drawnAtMs === drawnAtMs && error.nowMs === nowMs,
        );
      }
    }),
  );
});

for (const [what, token, error] of [
  ['no token', 'r/0', MalformedTokenError],
  ["another resource's token", 'other/0/01890a5d-ac96-774b-bcce-b302099a8057', WrongResourceError],
  ["an old server's token", 'r/0/9b1deb4d-3b7d-4bad-9bdd-2b0d7b3dcb6d', UnorderedRunIdError],
] as const) {
  test(`${what} is refused, and told apart`, async () => {
    await assert.rejects(new MemoryFence('r').admit(token), error);
  });
}
