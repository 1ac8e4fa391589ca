import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Finding } from '../../src/cli/resource-findings';
import { CliHost } from '../support/cli-host';
import { startOptions } from '../support/holders';
import { eventually, useTemporal } from '../support/temporal';
import { parentOfHolder } from '../support/workflows';

const temporal = useTemporal();
const host = new CliHost();

test('doctor and why name a parent under the only permit that waits for a child which wants one', async () => {
  const resource = temporal.resource();
  const options = startOptions(temporal, 'parent');
  const input = { resource, semaphore: { capacity: 1 }, holdMs: 0 };
  const parent = await temporal.client.workflow.start(parentOfHolder, { ...options, args: [input] });
  const says = `"${resource}": ${parent.workflowId} holds a permit while its child child-of-${parent.workflowId} waits for one`;
  const at = ['--address', temporal.env.address];
  // The server is asked about those that have waited for 30 s.
  await eventually(async () => {
    const doctor = await host.run(['doctor', ...at, '--task-queue', temporal.taskQueue, '--json']);
    const found: Finding[] = JSON.parse(doctor.stdout);
    assert.ok(
      found.some(({ what }) => what.startsWith(says)),
      doctor.stdout,
    );
  }, 90_000);
  for (const who of [parent.workflowId, `child-of-${parent.workflowId}`]) {
    const why = await host.run(['why', who, ...at]);
    assert.ok(why.stdout.includes(says), why.stdout);
  }
  await parent.terminate();
});
