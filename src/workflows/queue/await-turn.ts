import { ApplicationFailure, workflowInfo } from '@temporalio/workflow';
import { Acquirer, GivesWay } from '../../shared/acquirer';
import { MAX_DURATION_MS } from '../../shared/check';

import { isResource, queueId } from '../../shared/permit-id';
import type { AwaitTurnInput, Turn } from '../../shared/protocol';
import { slotNames } from '../../shared/slots';
import { isSlotText, readTicket } from '../../shared/wire-input';
import '../lenient-converter';
import { WorkflowQueuePlace } from './queue-place';

/**
 * A waiter, `permit-waiter:<resource>:<uuid>`: it waits in the queue for a client, and ends with the turn. So the client waits for one
 * result instead of polling slots. The waiter claims nothing. Its client starts the permit. If another acquirer was faster, the client
 * starts another waiter with the same ticket, which keeps the place.
 *
 * If the queue does not answer, an acquirer tries slots unasked. The waiter then ends with a turn without a slot, so that its client tries
 * some. A waiter that is cancelled leaves the queue first. It can't see whether its client lives, so it waits for `waitMs` only. If
 * the turn of a dead client's waiter comes earlier, the slot passes on at once or after the offer timeout.
 */
export async function awaitTurnWorkflow(input: AwaitTurnInput): Promise<Turn | null> {
  const { workflowId, runId, startTime } = workflowInfo();
  const waiter = { workflowId, runId };
  const { resource, ticket, waitMs, recheckAfterMs, missed } = checkInput(input, waiter);
  const tryYourself: Turn = { queueId: queueId(resource), ticketId: ticket.id };
  const acquirer = new Acquirer<Turn>(
    {
      slots: slotNames(ticket.slots),
      deadlineMs: startTime.getTime() + waitMs,
      recheckAfterMs,
      firstTries: 0,
      triesBeforeJoin: 0,
      triesPerRound: 1,
    },
    {
      nowMs: Date.now,
      random: Math.random,
      claim: async (_slot, offer) => (offer ? { ...tryYourself, ...offer } : tryYourself),
      place: () => new WorkflowQueuePlace(resource, { ...ticket, waiter }, undefined, { missed }),
      ...((ticket.maxWaiting ?? ticket.permits) !== undefined && {
        full: (superseded) => ({ ...tryYourself, full: true, ...(superseded && { superseded }) }),
      }),
    },
  );
  try {
    return (await acquirer.acquire()) ?? null;
  } catch (error) {
    if (error instanceof GivesWay) return { ...tryYourself, giveWay: true };
    throw error;
  }
}

/** Checks the input: other languages start this Workflow too, and an input without a ticket would fail its task indefinitely. */
function checkInput(input: AwaitTurnInput, waiter: { workflowId: string; runId: string }): AwaitTurnInput {
  const { resource, waitMs, recheckAfterMs, missed } = input ?? {};
  const ticket = isResource(resource) && readTicket(resource, { ...input.ticket, waiter });
  const isDuration = (ms: unknown) => typeof ms === 'number' && ms > 0 && ms <= MAX_DURATION_MS;
  if (ticket && isDuration(waitMs) && isDuration(recheckAfterMs)) {
    return { resource, ticket, waitMs, recheckAfterMs, missed: isSlotText(missed) ? missed : undefined };
  }
  throw ApplicationFailure.nonRetryable(
    'expected a resource, a ticket, and waitMs and recheckAfterMs above 0',
    'InvalidOptionsError',
  );
}
