import assert from 'node:assert/strict';
import type { WorkflowHandle } from '@temporalio/client';
import { startOptions } from './holders';
import type { PreemptibleInput, Step } from './preemption-workflows';
import { eventually, type Temporal } from './temporal';
import * as workflows from './workflows';

/** Starts a holder that others may take the permit of, and waits until it holds. */
export async function startPreemptible(temporal: Temporal, input: PreemptibleInput) {
  const handle = await temporal.client.workflow.start(workflows.preemptible, {
    ...startOptions(temporal, 'preemptible'),
    args: [input],
  });
  return { handle, ...(await untilStep(handle, 'holds')) };
}

/** Waits until the holder has come to that step for so many times. */
export async function untilStep(handle: Pick<WorkflowHandle, 'query'>, step: Step['step'], times = 1): Promise<Step> {
  return await eventually(async () => {
    const log = await handle.query(workflows.steps);
    const found = log.filter((it) => it.step === step);
    assert.ok(found.length >= times, JSON.stringify(log));
    return found[times - 1] ?? assert.fail();
  });
}

export async function stepsOf(handle: Pick<WorkflowHandle, 'query'>): Promise<string[]> {
  return (await handle.query(workflows.steps)).map(({ step }) => step);
}
