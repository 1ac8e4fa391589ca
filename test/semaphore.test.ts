import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { assertSafe, eventually, useTemporal } from './support/temporal';
import { exampleConsumer, holder, stage } from './support/workflows';

const temporal = useTemporal();

for (const capacity of [1, 3]) {
  test(`20 contenders on capacity ${capacity} all get their turn, never more than ${capacity} at once`, async () => {
    const resource = temporal.resource();
    const results = await Promise.all(
      Array.from({ length: 20 }, () =>
        temporal.client.workflow.execute(exampleConsumer, {
          workflowId: `consumer-${randomUUID()}`,
          taskQueue: temporal.taskQueue,
          args: [{ resource, semaphore: { capacity }, holdMs: 50 }],
        }),
      ),
    );
    assert.equal(results.length, 20);
    const holds = await assertSafe(temporal.client, resource, capacity);
    assert.equal(holds.length, 20);
  });
}
void eventually;
void holder;
void stage;
