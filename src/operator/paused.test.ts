import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Inspection } from './inspection';
import { pausedCaller, pausedIn } from './paused';

const since = new Date(0);

function permit(slot: string, paused: boolean) {
  const workflowId = `permit:a b:${slot}`;
  const held = { workflowId, runId: 'r', taskQueue: 'permits', holder: { workflowId: `train-${slot}` }, since };
  return { slot, state: 'held' as const, permit: paused ? { ...held, paused: true as const } : held };
}

function waiter(workflowId: string, paused: boolean) {
  const waits = { place: 1, ticketId: 't', workflowId, runId: 'r', priorityKey: 3, since };
  return paused ? { ...waits, paused: true as const } : waits;
}

function seen(found: Partial<Inspection>): Inspection {
  return { resource: 'a b', held: 0, slots: [], waiters: [], queue: 'running', recent: [], ...found };
}

test('nothing is paused while all runs', () => {
  assert.deepEqual(pausedIn(seen({ slots: [permit('0', false)], waiters: [waiter('w', false)] })), []);
  assert.deepEqual(pausedIn(seen({ queue: 'silent' })), []);
});

test('each kind that is paused is named once, with the command that unpauses the first, as a shell reads it', () => {
  const slots = [permit('0', false), permit('1', true), permit('2', true)];
  const found = pausedIn(seen({ slots, waiters: [waiter('w', true)], queue: 'paused' }));
  assert.deepEqual(
    found.map(({ what, stops }) => [what, stops]),
    [
      ['permit:a b:1, the permit of train-1 (and 1 more permit), is paused on the server', true],
      ['permit-queue:a b is paused on the server', true],
      ['w, which waits for a permit of "a b", is paused on the server', false],
    ],
  );
  const commands = found.map(({ advice }) => advice.replace(/.*: /, ''));
  assert.deepEqual(commands, [
    "temporal workflow unpause -w 'permit:a b:1'",
    "temporal workflow unpause -w 'permit-queue:a b'",
    'temporal workflow unpause -w w',
  ]);
});

test('a paused holder is told from a paused waiter, and those like it are counted', () => {
  const { what, advice } = pausedCaller({ resource: 'gpu', workflowId: 'train-1', slot: '0' }, 2);
  assert.equal(what, 'train-1, which holds slot "0" of "gpu" (and 2 more like it), is paused on the server');
  assert.match(advice, /^It does not renew, .*: temporal workflow unpause -w train-1$/);
});
