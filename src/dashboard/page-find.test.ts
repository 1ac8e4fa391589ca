import assert from 'node:assert/strict';
import { test } from 'node:test';
import { find, isFound } from './page/find';
import { asOf, titleOf } from './page/format';
import type { ResourceView } from './page-protocol';
import { emptyView } from './view-diff';

const VIEW: ResourceView = {
  ...emptyView('gpu-pool'),
  slots: [
    {
      slot: '0',
      state: 'held',
      permit: { workflowId: 'p', runId: 'r0', holder: { name: 'Train-1' }, sinceMs: 0, purpose: 'nightly' },
    },
    { slot: '1', state: 'free' },
  ],
  waiters: [{ ticketId: 't', waiter: { name: 'train-2' }, priorityKey: 3, fairnessKey: 'vision', sinceMs: 0 }],
  holds: [{ runId: 'r9', slot: '1', holder: { name: 'render-7' }, fromMs: 0, toMs: 1, outcome: 'revoked' }],
};

for (const [text, found] of [
  ['', [2, 1, 1]],
  ['train', [1, 1, 0]],
  ['NIGHT', [1, 0, 0]],
  ['vision', [0, 1, 0]],
  ['r9', [0, 0, 1]],
  ['revoked', [0, 0, 1]],
  ['nothing', [0, 0, 0]],
] as const) {
  test(`a search for "${text}" finds ${found.join(', ')} slots, waiters and past holds`, () => {
    const { slots, waiters, holds } = find(VIEW, text);
    assert.deepEqual([slots.length, waiters.length, holds.length], found);
    assert.equal(
      isFound(VIEW, text),
      found.some((count) => count > 0),
    );
  });
}

test('a resource is found by its own name too', () => assert.ok(isFound(VIEW, 'GPU')));

test("the tab's title has the counts, and none that are old", () => {
  const live = { link: 'live' as const, heardAtMs: 5_000 };
  const head = { ...VIEW.head, ready: true, held: 3, capacity: 4 };
  const title = (state: Parameters<typeof titleOf>[0], more: object) =>
    titleOf(state, { ...VIEW, head: { ...head, ...more } });
  assert.equal(title(live, { waiting: 2 }), '3/4 +2 gpu-pool');
  assert.equal(title(live, { waiting: 0, capacity: undefined }), '3 gpu-pool');
  assert.equal(title({ ...live, link: 'lost' }, {}), '? gpu-pool');
  assert.equal(title(live, { asOfMs: 4_000 }), '? gpu-pool');
  assert.equal(titleOf(live, undefined), 'temporal-semaphore');
  assert.equal(asOf({ ...live, link: 'lost' }, { ...VIEW, head }), 5_000);
});
