import { ApplicationFailure, workflowInfo } from '@temporalio/workflow';
import { Patience } from '../shared/patience';
import { queueId } from '../shared/permit-id';
import type { AwaitTurnInput, Turn } from '../shared/protocol';
import { WaitingPlace } from './waiting-place';

/**
 * Waits in the queue for somebody outside Workflows, `permit-waiter:<resource>:<uuid>`, and ends with the turn: the client
 * waits for one result instead of polling slots. It claims nothing. Its client starts the permit, and if somebody else was
 * faster, starts another waiter with the same ticket, which keeps the place.
 *
 * Cancelled, it leaves the line first. It can't see whether its client lives, so it waits for `waitMs` only: a dead
 * client's waiter is gone after that, and if its turn comes before, the slot passes on after the offer timeout.
 */
export async function awaitTurnWorkflow(input: AwaitTurnInput): Promise<Turn | null> {
  const { resource, ticket, waitMs, recheckAfterMs, missed } = checkInput(input);
  const { workflowId, runId, startTime } = workflowInfo();
  const deadlineMs = startTime.getTime() + waitMs;
  const patience = new Patience(recheckAfterMs);
  const place = new WaitingPlace(resource, { ...ticket, waiter: { workflowId, runId } }, undefined);
  try {
    if (missed === undefined || !(await place.missed(missed))) await place.enqueue();
    for (;;) {
      const leftMs = deadlineMs - Date.now();
      if (leftMs <= 0) return null;
      const turn = await place.nextTurn(Math.min(leftMs, patience.nextMs(Math.random())));
      if (turn?.slot !== undefined) return turn;
      if (turn) {
        patience.hadNoRoom();
      } else if (Date.now() < deadlineMs) {
        // Silence: if the queue is gone, this starts it anew. Our client tries a slot of its own in the meantime; in strict
        // order it may not, until we say that the queue did not even answer.
        const stuck = place.owesAnswer() && ticket.answer;
        await place.enqueue();
        if (stuck) return { queueId: queueId(resource), ticketId: ticket.id };
        patience.hadSilence();
      }
    }
  } finally {
    await place.leave();
  }
}

/** Other languages start this too. What is no ticket would fail the Workflow's task for ever. */
function checkInput(input: AwaitTurnInput): AwaitTurnInput {
  const { resource, ticket, waitMs, recheckAfterMs } = input ?? {};
  if (typeof resource === 'string' && typeof ticket?.id === 'string' && waitMs > 0 && recheckAfterMs > 0) return input;
  throw ApplicationFailure.nonRetryable(
    'expected a resource, a ticket, and waitMs and recheckAfterMs above 0',
    'InvalidOptionsError',
  );
}
