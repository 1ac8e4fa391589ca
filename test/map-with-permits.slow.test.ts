import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startOptions } from './support/holders';
import { assertSafe, eventually, useTemporal } from './support/temporal';
import * as workflows from './support/workflows';

const temporal = useTemporal();

/** The server suggests it. A run may be longer by what was under way. */
const SUGGESTED_EVENTS = 4_096;

const ITEMS = 10_000;

test('mapWithPermits in a Workflow, 10,000 items by an activity each on capacity 10: how long each history is', async (t) => {
  const resource = temporal.resource();
  const startedMs = performance.now();
  const mapper = await temporal.client.workflow.start(workflows.cursorMapper, {
    ...startOptions(temporal, 'mapper'),
    args: [{ resource, semaphore: { capacity: 10 }, count: ITEMS }],
  });
  const parts = await mapper.result();
  const seconds = (performance.now() - startedMs) / 1_000;
  assert.deepEqual(parts.flat(), [...Array(ITEMS).keys()]);
  const runs = await eventually(async () => {
    const found: { events: number; bytes: number }[] = [];
    for await (const { historyLength, historySize } of temporal.client.workflow.list({
      query: `WorkflowId = "${mapper.workflowId}"`,
    })) {
      found.push({ events: historyLength ?? 0, bytes: historySize ?? 0 });
    }
    assert.equal(found.length, parts.length);
    assert.ok(found.every(({ events }) => events > 0));
    return found;
  });
  const events = runs.reduce((sum, run) => sum + run.events, 0);
  const bytes = runs.reduce((sum, run) => sum + run.bytes, 0);
  const holds = await assertSafe(temporal.client, resource, 10);
  const figures = {
    runs: runs.length,
    mostEvents: Math.max(...runs.map((run) => run.events)),
    mostBytes: Math.max(...runs.map((run) => run.bytes)),
    eventsAnItem: Number((events / ITEMS).toFixed(2)),
    bytesAnItem: Math.round(bytes / ITEMS),
    permits: holds.length,
    seconds: Math.round(seconds),
  };
  t.diagnostic(JSON.stringify(figures));
  assert.ok(figures.mostEvents < SUGGESTED_EVENTS + 500, `${figures.mostEvents} events in one run`);
});
