import { test } from 'node:test';
import fc from 'fast-check';
import { SemaphoreClient } from '../../../src/client';
import { CAPACITY, cleanUp, commands, newModel } from '../../support/pool-commands';
import { useTemporal } from '../../support/temporal';

const temporal = useTemporal({ shared: true });

/** `POOL_COMMANDS_RUNS` sets how many runs of up to 20 commands; `POOL_COMMANDS_SEED` repeats those of a failure. */
const numRuns = Number(process.env.POOL_COMMANDS_RUNS ?? 2);
const seed = process.env.POOL_COMMANDS_SEED ? Number(process.env.POOL_COMMANDS_SEED) : undefined;

test('whatever callers and operators do, in any order, the server holds what a model of ten lines says', async () => {
  const terminate = async ({ workflowId, runId }: { workflowId: string; runId: string }) => {
    await temporal.client.workflow.getHandle(workflowId, runId).terminate();
  };
  const property = fc.asyncProperty(commands(terminate), async (run) => {
    const options = { capacity: CAPACITY, fair: true, taskQueue: temporal.taskQueue };
    const real = {
      pool: new SemaphoreClient(temporal.client, temporal.resource(), options),
      permits: new Map(),
      waiters: [],
    };
    try {
      await fc.asyncModelRun(() => ({ model: newModel(), real }), run);
    } finally {
      await cleanUp(real);
    }
  });
  await fc.assert(property, { numRuns, seed, endOnFailure: true });
});
