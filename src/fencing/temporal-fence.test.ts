import assert from 'node:assert/strict';
import { test } from 'node:test';
import { StaleTokenError } from '../shared/fencing-token';
import { TemporalFence } from './temporal-fence';

const TOKEN = { resource: 'gpu', slot: '0', runId: '01994f3c-7f00-7000-8000-000000000001' };

function fence(name: string, code?: number): TemporalFence {
  const describe = async () => ({ runId: TOKEN.runId, status: { name, ...(code !== undefined && { code }) } });
  return new TemporalFence('gpu', { workflow: { getHandle: () => ({ describe }) } });
}

test('a holder is admitted while its permit has not ended: also one that is paused on the server, which keeps its slot', async () => {
  for (const status of ['RUNNING', 'PAUSED']) await fence(status).admit(TOKEN);
  await fence('UNKNOWN', 8).admit(TOKEN); // an SDK that is older than the pause
  await assert.rejects(fence('COMPLETED', 2).admit(TOKEN), StaleTokenError);
});
