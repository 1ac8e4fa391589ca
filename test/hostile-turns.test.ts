import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import type { WorkflowHandle } from '@temporalio/client';
import { SemaphoreClient, type SemaphoreClientOptions } from '../src/client';
import { queueId } from '../src/shared/permit-id';
import { TURN } from '../src/shared/protocol';
import { startHolder } from './support/holders';
import { assertSafe, permitsRunning, untilWaiting, useTemporal } from './support/temporal';
import type { SemaphoreOptions } from './support/workflows';

const temporal = useTemporal({ shared: true });

// A permit-turn grants nothing, and anybody in the namespace may send one. Whatever it says, its waiter claims only slots that it
// may, its Workflow Task does not fail, and it is served as soon as its own slot is free.

type Forge = (turn: { queueId: string; ticketId: string }) => unknown;

const COUNTED: Record<string, Forge> = {
  'a slot above the capacity': (turn) => ({ ...turn, slot: '7' }),
  'a slot below 0': (turn) => ({ ...turn, slot: '-1' }),
  'a slot in another form': (turn) => ({ ...turn, slot: '00' }),
  'an empty slot': (turn) => ({ ...turn, slot: '' }),
  'a slot with a line break': (turn) => ({ ...turn, slot: 'a\nb' }),
  'a slot of another pool': (turn) => ({ ...turn, slot: 'a:b' }),
  'a slot that is an object': (turn) => ({ ...turn, slot: {} }),
  'a slot that is no primitive': (turn) => ({ ...turn, slot: { toString: 1, valueOf: 1 } }),
  'a slot that is null': (turn) => ({ ...turn, slot: null }),
  'a slot that is a number': (turn) => ({ ...turn, slot: 7 }),
  'a slot of 2,000 bytes': (turn) => ({ ...turn, slot: 's'.repeat(2_000) }),
  'a slot with a lone surrogate': (turn) => ({ ...turn, slot: '\ud800' }),
  'a capacity that does not reach its slot': (turn) => ({ ...turn, slot: '7', capacity: 7 }),
  'a capacity that is none': (turn) => ({ ...turn, slot: '7', capacity: '9' }),
  'the slot that is held': (turn) => ({ ...turn, slot: '0' }),
  'another queue': (turn) => ({ ...turn, queueId: 'permit-queue:other', slot: '0' }),
  'a queue that is an object': (turn) => ({ ...turn, queueId: {}, slot: '0' }),
  'no queue': ({ ticketId }) => ({ ticketId, slot: '0' }),
  'an unknown ticket, an endless queue': () => ({
    ticketId: 'x',
    queueId: `permit-queue:${'w'.repeat(1_000)}`,
    slot: '0',
  }),
  'an unknown ticket, a queue with a lone surrogate': () => ({
    ticketId: 'x',
    queueId: 'permit-queue:\ud800',
    slot: '0',
  }),
  'an unknown ticket that is an object': ({ queueId }) => ({ queueId, ticketId: { a: 1 }, slot: '0' }),
  null: () => null,
  'a number': () => 5,
  'nothing at all': () => ({}),
};
const NAMED: Record<string, Forge> = {
  'a name that the pool does not have': (turn) => ({ ...turn, slot: 'gpu-zzz' }),
  'a name that the pool does not have, with a capacity': (turn) => ({ ...turn, slot: '0', capacity: 5 }),
};

for (const [slots, forged] of [
  [{ capacity: 1 }, COUNTED],
  [{ slots: ['gpu-a'] }, NAMED],
] as const) {
  for (const kind of ['Workflow', 'client'] as const) {
    const what = 'slots' in slots ? 'named slots' : 'counted slots';
    test(`a ${kind} that waits for ${what} is not misled by any turn`, async () => {
      const left = Object.entries(forged);
      await Promise.all(Array.from({ length: Math.min(4, left.length) }, () => mislead(kind, left, slots)));
    });
  }
}

type SlotOptions = Pick<SemaphoreClientOptions, 'capacity' | 'slots'>;

/** Sends turns to one waiter of a full pool, one after the other, until none is left; then the waiter is served. */
async function mislead(kind: 'Workflow' | 'client', left: [string, Forge][], slots: SlotOptions): Promise<void> {
  const { client, taskQueue } = temporal;
  const resource = temporal.resource();
  const semaphore = { ...slots, recheckAfter: '10 minutes' as const };
  const pool = new SemaphoreClient(client, resource, { ...semaphore, taskQueue, lease: '2 minutes' });
  const held = await pool.acquire();
  const fromMs = Date.now();
  const gotMs = kind === 'Workflow' ? waitInWorkflow(resource, semaphore) : waitInClient(pool);
  gotMs.catch(() => undefined); // awaited below
  const sent: string[] = [];
  for (let next = left.shift(); next; next = left.shift()) {
    const [name, forge] = next;
    sent.push(name);
    const { tickets } = await untilWaiting(client, resource, 1); // a client's waiter ends with its turn, and another takes over
    const ticket = tickets[0] ?? assert.fail();
    const { workflowId, runId } = ticket.waiter;
    const waiter = client.workflow.getHandle(workflowId, runId);
    await waiter.signal(TURN, forge({ queueId: queueId(resource), ticketId: ticket.id }));
    await delay(1_500);
    assert.deepEqual(
      await permitsRunning(client, resource),
      [held.workflowId],
      `${name}: a permit beside the only one`,
    );
    await assertNoTaskFailed(waiter, name);
  }
  const releasedMs = Date.now();
  await held.release();
  assert.ok((await gotMs) - releasedMs < 30_000, `was not served after: ${sent.join(', ')}`);
  await assertSafe(client, resource, 1, [{ runId: held.runId, fromMs, toMs: releasedMs }]);
}

async function waitInWorkflow(resource: string, semaphore: SemaphoreOptions): Promise<number> {
  const waiter = await startHolder(temporal, { resource, semaphore, holdMs: 0 });
  assert.equal((await waiter.result()).at, 'done');
  return Date.now();
}

async function waitInClient(pool: SemaphoreClient): Promise<number> {
  const permit = await pool.acquire({ purpose: randomUUID() });
  const gotMs = Date.now();
  await permit.release();
  return gotMs;
}

async function assertNoTaskFailed(waiter: WorkflowHandle, name: string): Promise<void> {
  const { events } = await waiter.fetchHistory();
  const failed = events?.find((event) => event.workflowTaskFailedEventAttributes);
  assert.equal(failed, undefined, `${name}: failed a Workflow Task`);
}
