import { ApplicationFailure, condition, defineUpdate, log, setHandler } from '@temporalio/workflow';
import { OVERRIDE, type OverrideInput, type OverrideState, STALE_OVERRIDE } from '../../shared/operator-protocol';
import { isOverride } from '../../shared/wire-input';
import { shielded } from '../shielded';
import { onSignal } from '../signal-inbox';
import { overrideSignal } from '../signals';
import type { OperatedQueueState } from './operated-queue-state';

const overrideUpdate = defineUpdate<OverrideState, [OverrideInput]>(OVERRIDE);

/** How long an operator waits at most until the free slots are out of use. 20 slots take a second, 1,000 take longer than this. */
const IN_FORCE_WITHIN_MS = 5_000;

/** Lets operators resize and pause the pool, and Workflows too. */
export function acceptOverrides(resource: string, state: OperatedQueueState, changed: () => void): void {
  const validator = (input: OverrideInput) => check(resource, input, state.overridden);
  const take = (input: OverrideInput) => {
    changed();
    return state.setOverride(input, Date.now());
  };
  const takeInForce = async (input: OverrideInput) => {
    const taken = take(input);
    const isOver = () => state.isInForce || state.overridden?.version !== taken.version;
    if (!isOver()) await shielded(() => condition(isOver, IN_FORCE_WITHIN_MS));
    changed(); // the queue may have waited for this before it ends
    return taken;
  };
  setHandler(overrideUpdate, takeInForce, { validator });
  onSignal(overrideSignal, (input) => {
    try {
      validator(input);
    } catch (error) {
      if (!(error instanceof ApplicationFailure)) throw error;
      log.warn(`An override by signal was left out: ${error.message}.`);
      return;
    }
    take(input);
  });
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
