import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { queueId } from '../src/shared/permit-id';
import { ENQUEUE } from '../src/shared/protocol';
import { startHolder } from './support/holders';
import { send } from './support/strangers';
import { assertSafe, eventually, queueView, useTemporal } from './support/temporal';
import * as workflows from './support/workflows';

const temporal = useTemporal();

const RUNS_FOR_MS = 45_000;
/** The longest that nobody may get a turn, although somebody always waits. */
const MOST_STALL_MS = 1_000;

for (const rate of [30, 60]) {
  test(`a queue that gets ${rate} tickets a second continues as new without a stall`, async () => {
    const resource = temporal.resource();
    const semaphore = { capacity: 1 };
    const endsMs = Date.now() + RUNS_FOR_MS;
    const serve = async () => {
      while (Date.now() < endsMs) await (await startHolder(temporal, { resource, semaphore, holdMs: 0 })).result();
    };
    const consumers = Promise.all(Array.from({ length: 6 }, serve));
    await eventually(async () => assert.ok(await queueView(temporal.client, resource)));
    // They want another slot, which is held, so they only wait; their tickets come again and again.
    const tickets = Array.from({ length: 200 }, () => ({
      id: randomUUID(),
      waiter: { workflowId: `nobody-${randomUUID()}`, runId: randomUUID() },
      slots: ['held'],
      sinceMs: Date.now(),
    }));
    const held = await startHolder(temporal, { resource, semaphore: { slots: ['held'] } });
    let sent = 0;
    for (const startMs = Date.now(); Date.now() < endsMs; await delay(10)) {
      const due = Math.floor(((Date.now() - startMs) / 1_000) * rate);
      const batch = [];
      for (; sent < due; sent++) {
        batch.push(send(temporal.client, queueId(resource), ENQUEUE, tickets[sent % tickets.length]));
      }
      await Promise.all(batch);
    }
    await consumers;
    await held.signal(workflows.finish);
    await held.result();
    await temporal.client.workflow.getHandle(queueId(resource)).terminate(); // those tickets are nobody's

    const holds = (await assertSafe(temporal.client, resource, 2)).filter(({ slot }) => slot === '0');
    const from = holds.map(({ fromMs }) => fromMs).sort((a, b) => a - b);
    const stallMs = Math.max(...from.slice(1).map((ms, n) => ms - (from[n] as number)));
    let [runs, longestRun] = [0, 0];
    for await (const run of temporal.client.workflow.list({ query: `WorkflowId = "${queueId(resource)}"` })) {
      runs++;
      longestRun = Math.max(longestRun, run.historyLength ?? 0);
    }
    console.log(JSON.stringify({ rate, sent, served: from.length, runs, longestRun, stallMs }));
    assert.ok(runs >= 3, `the queue continued as new only ${runs - 1} times`);
    assert.ok(stallMs <= MOST_STALL_MS, `nobody had a turn for ${stallMs} ms`);
  });
}
