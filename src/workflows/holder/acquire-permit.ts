import { CancellationScope, log, uuid4, workflowInfo } from '@temporalio/workflow';
import { Acquirer, type Offer } from '../../shared/acquirer';
import { disagreementMessage } from '../../shared/declared-limits';
import { Lease } from '../../shared/lease';
import { TooFewSlots } from '../../shared/permit-set';
import { again, type Caller, type Request, refOf } from '../../shared/request';
import { LineFullError, PermitTimeoutError } from '../errors';
import { metrics, timeAcquire } from '../metrics';
import { claimSlot } from '../permit/claim';
import { WorkflowQueuePlace } from '../queue/queue-place';
import { shielded } from '../signals';
import { Grant } from './grant';
import { heldHere } from './hold';
import { endOfChild, listenForPreemptions, listenForRevocations } from './holder-inbox';
import { Permit } from './permit';

/**
 * Each try of a held slot costs a Workflow five history events. When all slots are held, few tries are better. When half are
 * free, two tries find one three times in four. The rounds are for a queue that does not answer, which may last for hours.
 */
const TRIES = { firstTries: 2, triesPerRound: 2 };

/** This Workflow, which begins to wait now. */
export function callerNow(): Caller {
  const { namespace, priority } = workflowInfo();
  return { sinceMs: Date.now(), namespace, priority };
}

/** Waits for a permit that can rejoin the queue. Throws as {@link acquireGrant} does. */
export async function acquirePermit(request: Request): Promise<Permit> {
  return permitOf(request, await acquireGrant(request));
}

/** Does not wait. `undefined` when all slots are held, or with `fair` when others wait. */
export async function tryPermit(request: Request): Promise<Permit | undefined> {
  const timer = timeAcquire(request.semaphore.resource);
  try {
    const grant = timer.ended(await acquirer(request).tryNow());
    return grant && permitOf(request, grant);
  } catch (error) {
    throw timer.failed(error);
  }
}

/**
 * Waits for a permit.
 * @param fromMs from when its timeout counts
 * @throws PermitTimeoutError, and CancelledFailure when the current scope is cancelled
 */
export async function acquireGrant(request: Request, fromMs = request.ticket.sinceMs): Promise<Grant> {
  const { timeoutMs, semaphore } = request;
  const { resource } = semaphore;
  const timer = timeAcquire(resource);
  try {
    const grant =
      timeoutMs === 0 ? await acquirer(request).tryNow() : await acquirer(request, fromMs + timeoutMs).acquire();
    if (!grant) throw new PermitTimeoutError(resource, timeoutMs, heldHere.ownWait(semaphore));
    return timer.ended(grant);
  } catch (error) {
    throw timer.failed(error);
  }
}

function permitOf(request: Request, grant: Grant): Permit {
  const { outlivesRun, atCheckpoints } = request;
  return new Permit(grant, { outlivesRun, atCheckpoints, lineUp: () => acquireGrant(again(request), Date.now()) });
}

function acquirer(request: Request, deadlineMs = Number.POSITIVE_INFINITY): Acquirer<Grant> {
  const { resource, slots, fair, recheckAfterMs, taskQueue } = request.semaphore;
  const { maxWaiting, permits } = request.ticket;
  const full = (isSuperseded: boolean) => {
    throw maxWaiting === undefined
      ? new TooFewSlots(resource, recheckAfterMs)
      : new LineFullError(resource, maxWaiting, isSuperseded);
  };
  const place = () => {
    const { workflowId, runId } = workflowInfo();
    const ticket = { ...request.ticket, id: uuid4(), waiter: { workflowId, runId } };
    return new WorkflowQueuePlace(resource, ticket, taskQueue);
  };
  return new Acquirer(
    { slots, deadlineMs, recheckAfterMs, ...TRIES, triesBeforeJoin: fair ? 0 : 1 },
    {
      nowMs: Date.now,
      random: Math.random,
      // If no other caller waits for the permit, each async function on the way costs a tenth of a millisecond: see `shielded`.
      claim: (slot, offer) => (offer ? claimOffered(request, slot, offer) : claim(request, slot)),
      place,
      ...((maxWaiting ?? permits) !== undefined && { full }),
    },
  );
}

async function claimOffered(request: Request, slot: string, offer: Offer): Promise<Grant | undefined> {
  const fromMs = Date.now();
  const { semaphore } = request;
  const grant = await claim(request, slot, offer.queueId);
  if (grant) metrics.handoff(semaphore.resource, 'claim', Date.now() - fromMs);
  if (grant && offer.others !== undefined) log.warn(disagreementMessage(semaphore, offer.others));
  return grant;
}

/**
 * The atomic step. A start that is under way can't be recalled, so this shields it from cancellation, and releases the permit
 * if the caller no longer wants it. `undefined` if the slot is held: the server already runs a Workflow with this ID.
 */
async function claim(request: Request, slot: string, watchedBy?: string): Promise<Grant | undefined> {
  const caller = CancellationScope.current();
  if (caller.consideredCancelled) return await caller.cancelRequested;
  const { semaphore, memo, outlivesRun } = request;
  const { resource, leaseMs, maxHoldMs, taskQueue } = semaphore;
  listenForRevocations();
  if (memo.preemptible) listenForPreemptions();
  const sentMs = Date.now();
  const child = await shielded(() =>
    claimSlot({ resource, slot }, memo, { maxHoldMs, taskQueue, outlivesRun, watchedBy }),
  );
  const ref = child && refOf(request, slot, child.firstExecutionRunId);
  const grant = ref && new Grant(ref, endOfChild(child, ref), new Lease(leaseMs, sentMs, maxHoldMs, Date.now));
  if (!caller.consideredCancelled) return grant;
  await grant?.release();
  return await caller.cancelRequested;
}
