import { ApplicationFailure, defineUpdate, setHandler } from '@temporalio/workflow';
import { OVERRIDE, type OverrideInput, type OverrideState, STALE_OVERRIDE } from '../../shared/operator-protocol';
import { isOverride } from '../../shared/wire-input';
import type { OperatedQueueState } from './operated-queue-state';

const overrideUpdate = defineUpdate<OverrideState, [OverrideInput]>(OVERRIDE);

/** Lets operators resize and pause the pool. */
export function acceptOverrides(resource: string, state: OperatedQueueState, changed: () => void): void {
  setHandler(
    overrideUpdate,
    (input) => {
      changed();
      return state.setOverride(input, Date.now());
    },
    { validator: (input) => check(resource, input, state.overridden) },
  );
}

/** Refuses before the server writes anything to the history. */
function check(resource: string, input: OverrideInput, current: OverrideState | undefined): void {
  if (!isOverride(resource, input)) {
    throw ApplicationFailure.nonRetryable('expected slots, and a capacity or a pause of them', 'InvalidOptionsError');
  }
  if (input.ifVersion !== undefined && input.ifVersion !== (current?.version ?? 0)) {
    throw ApplicationFailure.nonRetryable('the override is of another version', STALE_OVERRIDE, current);
  }
}
