import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { permitId, queueId } from '../src/shared/permit-id';
import { startHolder, startHolding } from './support/holders';
import { untilWaiting, useTemporal } from './support/temporal';
import * as workflows from './support/workflows';

const temporal = useTemporal();
const count = async (id: string, runId?: string) =>
  (await temporal.client.workflow.getHandle(id, runId).describe()).historyLength;
test('plain', async () => {
  for (let i = 0; i < 2; i++) {
    const resource = temporal.resource();
    const h = await startHolder(temporal, { resource, semaphore: { capacity: 1 }, holdMs: 0 });
    await h.result();
    console.log('plain: holder', await count(h.workflowId), 'permit', await count(permitId({ resource, slot: '0' })));
  }
});
test('contended', async () => {
  for (const fair of [false, true])
    for (let i = 0; i < 3; i++) {
      const resource = temporal.resource();
      const semaphore = { capacity: 1, fair };
      const first = await startHolding(temporal, { resource, semaphore });
      const w = await startHolder(temporal, { resource, semaphore, holdMs: 0 });
      await untilWaiting(temporal.client, resource, 1);
      await first.handle.signal(workflows.finish);
      await w.result();
      await first.handle.result();
      await delay(3500);
      console.log(
        `contended fair=${fair}: waiter`,
        await count(w.workflowId),
        'its permit',
        await count(permitId({ resource, slot: '0' })),
        'queue',
        await count(queueId(resource)),
      );
    }
});
test('rechecks', async () => {
  for (const fair of [false, true]) {
    const resource = temporal.resource();
    const semaphore = { capacity: 1, recheckAfter: 500, fair };
    const first = await startHolding(temporal, { resource, semaphore });
    const w = await startHolder(temporal, { resource, semaphore, holdMs: 0 });
    await untilWaiting(temporal.client, resource, 1);
    await delay(1500);
    console.log(`fair=${fair} after 1.5 s (1 recheck): waiter`, await count(w.workflowId));
    await delay(14_000);
    const { events } = await w.fetchHistory();
    console.log(
      `fair=${fair} after 15.5s: waiter`,
      events?.length,
      'timers fired',
      events?.filter((e) => e.timerFiredEventAttributes).length,
      'queue',
      await count(queueId(resource)),
    );
    await first.handle.signal(workflows.finish);
    await w.result();
  }
});
