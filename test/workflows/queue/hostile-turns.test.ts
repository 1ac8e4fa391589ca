import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SemaphoreClient, type SemaphoreClientOptions } from '../../../src/client';
import { permitId, queueId } from '../../../src/shared/permit-id';
import { ENDED, PREEMPTED, REVOKED, TURN } from '../../../src/shared/protocol';
import { finish } from '../../support/finishing';
import { startHolder, startOptions, untilAt } from '../../support/holders';
import { BAD_TURNS, FORGED_TURNS, type ForgedTurn, NO_COUNTED_SLOTS, NO_NAMED_SLOTS } from '../../support/malformed';
import { send, taskFailures, UNDECODABLE } from '../../support/strangers';
import { assertSafe, eventually, untilWaiting, useTemporal } from '../../support/temporal';
import * as workflows from '../../support/workflows';

const temporal = useTemporal({ shared: true });

// A permit-turn grants nothing, and anybody in the namespace may send one. Whatever it says, its waiter claims only slots that it
// may, its Workflow Task does not fail, and it is served as soon as its own slot is free.

type Slots = Pick<SemaphoreClientOptions, 'capacity' | 'slots'>;
type Kind = 'Workflow' | 'client';

for (const kind of ['Workflow', 'client'] as const) {
  test(`a ${kind} that waits for counted slots is not misled by any turn`, async () => {
    await mislead(kind, { capacity: 1 }, '0', { ...BAD_TURNS, ...NO_COUNTED_SLOTS, ...FORGED_TURNS });
  });
  test(`a ${kind} that waits for named slots is not misled by any turn`, async () => {
    await mislead(kind, { slots: ['gpu-a'] }, 'gpu-a', NO_NAMED_SLOTS);
  });
}

test("no signal that nobody can decode stops a user's Workflow, whether it waits, holds or has adopted a permit", async () => {
  const { client } = temporal;
  const resource = temporal.resource();
  const sendAll = async ({ workflowId }: { workflowId: string }, name: string) => {
    for (const payload of Object.values(UNDECODABLE)) {
      await send(client, workflowId, name, payload);
      await send(client, workflowId, name, {}, payload);
    }
  };
  const pool = new SemaphoreClient(client, resource, { capacity: 1, taskQueue: temporal.taskQueue });
  const first = await pool.acquire();
  const acquire = { preemptible: { grace: '1 minute' }, priority: { priorityKey: 4 } } as const;
  const holder = await startHolder(temporal, { resource, semaphore: { capacity: 1 }, acquire });
  await untilWaiting(client, resource, 1);
  await sendAll(holder, TURN);
  await first.release();
  await untilAt(holder, 'holding');
  for (const name of [REVOKED, PREEMPTED]) await sendAll(holder, name);
  await holder.signal(finish);
  await holder.result();

  const ref = (await pool.acquire()).detach();
  const adopter = await client.workflow.start(workflows.adopter, { ...startOptions(temporal), args: [ref] });
  await untilAt(adopter, 'holding');
  await sendAll(adopter, ENDED);
  await adopter.signal(finish);
  await adopter.result();
  for (const { workflowId } of [holder, adopter]) assert.deepEqual(await taskFailures(client, workflowId), []);
});

/** Sends turns to the one waiter of a full pool. Then the slot comes free, and the waiter is served. */
async function mislead(kind: Kind, slots: Slots, slot: string, forged: Record<string, ForgedTurn>): Promise<void> {
  const { client, taskQueue } = temporal;
  const resource = temporal.resource();
  const semaphore = { ...slots, recheckAfter: '10 minutes' as const };
  const pool = new SemaphoreClient(client, resource, { ...semaphore, taskQueue, lease: '10 minutes' });
  const held = await pool.acquire();
  const fromMs = Date.now();
  const waiter = kind === 'Workflow' ? await startHolder(temporal, { resource, semaphore, holdMs: 0 }) : undefined;
  const served = waiter ? waiter.result() : pool.withPermit(async () => undefined);
  served.catch(() => undefined); // awaited below
  const heard = new Map<string, string>();
  for (const forge of Object.values(forged)) {
    await eventually(async () => {
      const { tickets } = await untilWaiting(client, resource, 1); // a client's waiter ends with its turn, and another takes over
      const { id: ticketId, waiter } = tickets[0] ?? assert.fail();
      await send(client, waiter.workflowId, TURN, forge({ queueId: queueId(resource), ticketId }));
      heard.set(waiter.workflowId, waiter.runId ?? '');
    });
  }
  const toMs = Date.now();
  await held.release();
  await served;
  await assertSafe(client, resource, 1, [{ runId: held.runId, fromMs, toMs }]);
  await assertNoOtherPermit(resource, slot);
  for (const [workflowId, runId] of heard) {
    assert.deepEqual(await taskFailures(client, workflowId, runId), [], workflowId);
  }
}

async function assertNoOtherPermit(resource: string, slot: string): Promise<void> {
  const query = `WorkflowId STARTS_WITH ${JSON.stringify(permitId({ resource, slot: '' }))}`;
  for await (const { workflowId } of temporal.client.workflow.list({ query })) {
    assert.equal(workflowId, permitId({ resource, slot }), 'a permit of a slot that is none');
  }
}
