import assert from 'node:assert/strict';
import { test } from 'node:test';
import { allKnown, neediest } from './page/attention';
import type { ResourceHead, ResourceView } from './page-protocol';
import { emptyView } from './view-diff';

const NOW_MS = 1_000_000;

function view(resource: string, head: Partial<ResourceHead>, leaseLeftMs?: number): ResourceView {
  const empty = emptyView(resource);
  const permit = { workflowId: 'w', runId: 'r', holder: { name: 'a' }, sinceMs: NOW_MS - 60_000 };
  const leaseDeadlineMs = leaseLeftMs === undefined ? undefined : NOW_MS + leaseLeftMs;
  const slots = head.held ? [{ slot: '0', state: 'held' as const, permit: { ...permit, leaseDeadlineMs } }] : [];
  return { ...empty, head: { ...empty.head, ready: true, waiting: 0, ...head }, slots };
}

test('a problem needs a person more than waiters do, waiters more than holders, and holders more than nothing', () => {
  const idle = view('idle', {});
  const unknown = view('unknown', { ready: false });
  const held = view('held', { held: 5 }, 9_000);
  const waited = view('waited', { held: 1, waiting: 2 }, 9_000);
  const crowded = view('crowded', { held: 1, waiting: 7 }, 9_000);
  const failed = view('failed', { problem: 'no answer' });
  const silent = view('silent', { queue: 'silent', waiting: undefined });
  const differing = view('differing', { disagreement: [] });
  const strange = view('strange', { strangers: 'permit:strange:0 is a Workflow of type "train"' });
  const paused = view('paused', { held: 1, paused: ['permit:paused:0 is paused on the server'] }, 9_000);
  const overdue = view('overdue', { held: 1 }, -60_000);
  const unserved = view('unserved', { held: 1 });
  const pick = (...views: ResourceView[]) => neediest(views, NOW_MS)?.resource;
  assert.equal(pick(unknown, idle), 'idle');
  assert.equal(pick(idle, held, unknown), 'held');
  assert.equal(pick(idle, held, waited, crowded), 'crowded');
  for (const one of [failed, silent, differing, strange, paused, overdue, unserved])
    assert.equal(pick(crowded, one, idle), one.resource);
  assert.equal(pick(waited, { ...waited, resource: 'equal' }), 'waited');
  assert.equal(pick(), undefined);
});

test('all resources are known when the search has ended and each has been looked at, with whatever result', () => {
  const [known, failed, unknown] = [
    view('a', {}),
    view('b', { ready: false, problem: 'no' }),
    view('c', { ready: false }),
  ];
  assert.equal(allKnown([known, failed], { done: true }), true);
  assert.equal(allKnown([known, failed], { done: false, problem: 'no' }), true);
  assert.equal(allKnown([known, unknown], { done: true }), false);
  assert.equal(allKnown([known], { done: false }), false);
});
