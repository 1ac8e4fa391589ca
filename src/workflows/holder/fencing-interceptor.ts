import {
  defaultPayloadConverter,
  type WorkflowInterceptorsFactory,
  type WorkflowOutboundCallsInterceptor,
} from '@temporalio/workflow';
import { FENCING_SCHEDULED_HEADER, FENCING_TOKEN_HEADER, HELD_HEADER } from '../../shared/fencing-token';
import { currentPermit, heldHere } from './hold';
import type { Permit } from './permit';
import { unawaitedWarning } from './unawaited';

/** The activities that run under one permit at the same time. */
interface Round {
  scheduledMs: number;
  running: number;
}

/** Adds the current permit's token to the headers of activities. A header that is already present is kept. */
class TokenCarrier {
  private readonly rounds = new WeakMap<Permit, Round>();

  async carry<T extends { readonly headers: object }>(
    input: T,
    next: (input: T) => Promise<unknown>,
  ): Promise<unknown> {
    const permit = currentPermit();
    if (!permit || FENCING_TOKEN_HEADER in input.headers) return await next(input);
    const round = this.rounds.get(permit) ?? { scheduledMs: 0, running: 0 };
    this.rounds.set(permit, round);
    if (round.running++ === 0) round.scheduledMs = Math.max(Date.now(), round.scheduledMs + 1);
    const token = defaultPayloadConverter.toPayload(String(permit.token));
    const scheduled = defaultPayloadConverter.toPayload(round.scheduledMs);
    const headers = { [FENCING_TOKEN_HEADER]: token, [FENCING_SCHEDULED_HEADER]: scheduled, ...input.headers };
    try {
      return await next({ ...input, headers });
    } finally {
      round.running--;
    }
  }
}

/** Adds the resources of which the calling code holds permits: an activity must not wait for a permit of one of them. */
function withHeld<T extends { readonly headers: object }>(input: T): T {
  const held = [...new Set(heldHere.resources)];
  if (held.length === 0) return input;
  return { ...input, headers: { ...input.headers, [HELD_HEADER]: defaultPayloadConverter.toPayload(held) } };
}

function outbound(): WorkflowOutboundCallsInterceptor {
  const carrier = new TokenCarrier();
  return {
    scheduleActivity: (input, next) => carrier.carry(withHeld(input), next),
    scheduleLocalActivity: (input, next) => carrier.carry(withHeld(input), next),
  };
}

/**
 * Puts the token of the innermost `withPermit` in the headers of every activity that is called inside it, for
 * `currentFencingToken()` to read there, and the resources of all permits around the call, for a `SemaphorePlugin` to refuse an activity
 * that would wait for its own Workflow. Warns of a `withPermit` that the Workflow does not await. Loaded through a worker's
 * `interceptors.workflowModules`.
 */
export const interceptors: WorkflowInterceptorsFactory = () => ({
  outbound: [outbound()],
  internals: [unawaitedWarning],
});
