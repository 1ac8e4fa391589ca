import { ApplicationFailure, condition, defineUpdate, log, setHandler } from '@temporalio/workflow';
import { OVERRIDE, type OverrideInput, type OverrideState, STALE_OVERRIDE } from '../../shared/protocol';
import { isOverride } from '../../shared/wire-input';
import { onSignal } from '../inbox';
import { overrideSignal, shielded } from '../signals';
import { refuseWhenMoved } from '../takeover';
import type { QueueState } from './queue-state';

const overrideUpdate = defineUpdate<OverrideState, [OverrideInput]>(OVERRIDE);

/** How long an operator waits at most until the free slots are out of use. 20 slots take a second, 1,000 take longer than this. */
const IN_FORCE_WITHIN_MS = 5_000;

/** Lets Workflows resize and pause the resource with a signal, since they can't send an update. */
export function hearOverrides(resource: string, state: QueueState, wake: () => void): void {
  onSignal(overrideSignal, (input) => {
    try {
      check(resource, input, state);
    } catch (error) {
      if (!(error instanceof ApplicationFailure)) throw error;
      log.warn(`An override by signal was ignored: ${error.message}.`);
      return;
    }
    wake();
    state.setOverride(input, Date.now());
  });
}

/**
 * Lets operators resize and pause the resource.
 *
 * @param act does what is due without the command, so that earlier messages take effect first
 */
export function acceptOverrides(resource: string, state: QueueState, wake: () => void, act: () => void): void {
  const takeInForce = async (input: OverrideInput) => {
    check(resource, input, state);
    act();
    wake();
    const taken = state.setOverride(input, Date.now());
    const isOver = () => state.isInForce || (state.overridden ?? taken).version !== taken.version;
    if (!isOver()) await shielded(() => condition(isOver, IN_FORCE_WITHIN_MS));
    wake(); // the queue may have waited for this answer before it ends
    return taken;
  };
  setHandler(overrideUpdate, takeInForce, { validator: (_input: OverrideInput) => refuseWhenMoved() });
}

/** Refuses an impossible command before it changes anything. */
function check(resource: string, input: OverrideInput, state: QueueState): void {
  if (!isOverride(resource, input)) {
    throw ApplicationFailure.nonRetryable('expected slots, and a capacity or a pause of them', 'InvalidOptionsError');
  }
  if (!state.canSet(input)) {
    throw ApplicationFailure.nonRetryable('the queue is too long for that many slots', 'InvalidOptionsError');
  }
  const current = state.overridden;
  if (input.ifVersion !== undefined && input.ifVersion !== (current?.version ?? 0)) {
    throw ApplicationFailure.nonRetryable('the override has another version', STALE_OVERRIDE, current);
  }
}
