import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { scrape } from '../../scripts/support/prometheus';
import { mapConcurrently } from '../../src/client/server/map-concurrently';
import { Operator } from '../../src/operator';
import { permitId } from '../../src/shared/permit-id';
import { PERMIT_WORKFLOW } from '../../src/shared/protocol';
import { CliHost, type Ended } from '../support/cli-host';
import { until, useTemporal } from '../support/temporal';

// A limits file of 500 resources: half of them as their callers declare, half of them with an override, and so with a queue.

const temporal = useTemporal({ metrics: true });
const host = new CliHost();
const directory = mkdtempSync(join(tmpdir(), 'limits-'));
after(() => rmSync(directory, { recursive: true }));

const COUNT = 500;
const RESIZED = COUNT / 2;
const DECLARED = 3;
const names = [...Array(COUNT).keys()].map((index) => `team-${index}`);
const capacityOf = (index: number) => (index < RESIZED ? 2 : DECLARED);

/** What Temporal Cloud would bill for, as this server counts it. Without such a count, it is 0. */
async function actions(): Promise<number> {
  const { metrics } = temporal.env;
  const counted = metrics === undefined ? [] : await scrape(metrics);
  return counted.filter(({ name }) => /^action(_total)?$/.test(name)).reduce((sum, { value }) => sum + value, 0);
}

test('500 resources: plan compares them; apply changes each once, and then costs a query for each that has a queue', async (t) => {
  const { client, taskQueue } = temporal;
  await mapConcurrently(names.slice(RESIZED), async (resource) => {
    const memo = { leaseMs: 3_600_000, slots: DECLARED, holder: { identity: `holder of ${resource}` } };
    const workflowId = permitId({ resource, slot: '0' });
    await client.workflow.start(PERMIT_WORKFLOW, { workflowId, taskQueue, memo, args: [memo] });
  });
  await until(async () => {
    const { count } = await client.workflow.count(
      `WorkflowType = "${PERMIT_WORKFLOW}" AND ExecutionStatus = "Running"`,
    );
    return count === COUNT - RESIZED;
  });
  const path = join(directory, 'limits.json');
  const limits = names.map((name, index) => [name, { capacity: capacityOf(index), declared: DECLARED }]);
  writeFileSync(path, JSON.stringify({ version: 1, resources: Object.fromEntries(limits) }));

  const measured = async (what: string, ...args: string[]): Promise<Ended & { cost: number }> => {
    const [before, sinceMs] = [await actions(), performance.now()];
    const ended = await host.run([...args, '--address', temporal.env.address]);
    const tookMs = Math.round(performance.now() - sinceMs);
    const cost = (await actions()) - before;
    t.diagnostic(`${what}: ${tookMs} ms, ${cost} Actions`);
    return { ...ended, cost };
  };
  const first = await measured('plan before', 'plan', path);
  assert.equal(first.code, 2, first.stderr);
  assert.match(first.stdout, new RegExp(`\n${RESIZED} to change, ${COUNT - RESIZED} in force\\.\n$`));
  const apply = () => measured('apply', 'apply', path, '--yes', '--task-queue', taskQueue);
  let applied = await apply();
  // A busy machine may take longer for an order than apply waits. Then apply says so, and can be repeated.
  for (
    let times = 1;
    times < 3 && /\d+ may not have changed\. Run plan, then apply again/.test(applied.stderr);
    times++
  ) {
    assert.equal(applied.code, 69);
    applied = await apply();
  }
  assert.deepEqual([applied.code, applied.stderr], [0, '']);
  const second = await measured('plan after', 'plan', path);
  assert.deepEqual([second.code, second.stdout], [0, `Nothing to change, ${COUNT} in force.\n`]);
  const versions = async () => {
    return await mapConcurrently(names.slice(0, RESIZED), async (resource) => {
      const { override } = await new Operator(client, resource).inspect({ recent: 0, search: false });
      return override?.version;
    });
  };
  const set = await versions();
  const again = await measured('apply that changes nothing', 'apply', path, '--yes', '--task-queue', taskQueue);
  assert.deepEqual([again.code, again.stdout], [0, `Nothing to change, ${COUNT} in force.\n`]);
  assert.deepEqual(await versions(), set);
  // The server may be busy with drained slots still.
  assert.ok(again.cost <= 2 * COUNT, `${again.cost} Actions`);
});
