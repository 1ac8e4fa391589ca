import assert from 'node:assert/strict';
import { test } from 'node:test';
import { purposeHere } from '../client/holder/purpose-here';
import { MAX_PURPOSE_LENGTH } from '../shared/options';
import { activityPurpose } from './activity-purpose';

type Factory = typeof activityPurpose;

/** The purpose of what an activity does, by what the SDK tells of it. */
async function purposeOf(info: object): Promise<unknown> {
  const { inbound } = activityPurpose({ info } as Parameters<Factory>[0]);
  return await inbound?.execute?.({ args: [], headers: {} }, async () => purposeHere());
}

test('the purpose names the Workflow of an activity, or the activity itself where no Workflow has started it', async () => {
  const info = { activityType: 'train', activityId: 'nightly-7' };
  assert.equal(
    await purposeOf({ ...info, workflowExecution: { workflowId: 'order-3', runId: 'r' } }),
    'train of order-3',
  );
  assert.equal(await purposeOf(info), 'train (activity nightly-7)');
  assert.equal(
    String(await purposeOf({ ...info, activityId: 'x'.repeat(2 * MAX_PURPOSE_LENGTH) })).length,
    MAX_PURPOSE_LENGTH,
  );
});
