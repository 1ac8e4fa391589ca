import { CancellationScope, uuid4, workflowInfo } from '@temporalio/workflow';
import { Acquirer, type Offer } from '../../shared/acquirer';
import type { ResolvedAcquire, ResolvedSemaphore } from '../../shared/options';
import type { Ticket } from '../../shared/protocol';
import { draftTicket } from '../../shared/ticket';
import { LineFullError, PermitTimeoutError } from '../errors';
import { metrics, timeAcquire } from '../metrics';
import { claimSlot } from '../permit/claim';
import { WorkflowQueuePlace } from '../queue/queue-place';
import { listenForRevocations } from './holder-inbox';
import { Permit } from './permit';
import { endOfChild } from './permit-end';

/**
 * Each try of a held slot costs a Workflow five history events. When all slots are held, few tries are better. When half are
 * free, two tries find one three times in four. The rounds are for a queue that does not answer, which may last for hours.
 */
const TRIES = { firstTries: 2, triesPerRound: 5 };

/**
 * Waits for a permit. `sinceMs`: when the caller began to wait, for this permit or for those before it.
 * @throws PermitTimeoutError, and CancelledFailure when the current scope is cancelled
 */
export async function acquirePermit(
  semaphore: ResolvedSemaphore,
  request: ResolvedAcquire,
  sinceMs: number,
): Promise<Permit> {
  const { resource } = semaphore;
  const { timeoutMs, attempts } = request;
  const timer = timeAcquire(resource);
  try {
    const permit =
      timeoutMs === 0
        ? await acquirer(semaphore, request, sinceMs).tryOnce(attempts)
        : await acquirer(semaphore, request, sinceMs, sinceMs + timeoutMs).acquire();
    if (!permit) throw new PermitTimeoutError(resource, timeoutMs);
    return timer.ended(permit);
  } catch (error) {
    throw timer.failed(error);
  }
}

/** Tries every slot once. `undefined` when all are held. */
export async function tryPermit(semaphore: ResolvedSemaphore, request: ResolvedAcquire): Promise<Permit | undefined> {
  const timer = timeAcquire(semaphore.resource);
  try {
    return timer.ended(await acquirer(semaphore, request, Date.now()).tryOnce(request.attempts));
  } catch (error) {
    throw timer.failed(error);
  }
}

function acquirer(
  semaphore: ResolvedSemaphore,
  request: ResolvedAcquire,
  sinceMs: number,
  deadlineMs = Number.POSITIVE_INFINITY,
): Acquirer<Permit> {
  const { resource, slots, fair, recheckAfterMs, taskQueue } = semaphore;
  const { maxWaiting } = request;
  const full = () => {
    throw new LineFullError(resource, maxWaiting as number);
  };
  return new Acquirer(
    { slots, deadlineMs, recheckAfterMs, ...TRIES, triesBeforeJoin: fair ? 0 : 1 },
    {
      nowMs: Date.now,
      random: Math.random,
      claim: async (slot, offer) => await timeClaim(semaphore, slot, request, offer),
      place: () => new WorkflowQueuePlace(resource, ticketFor(semaphore, request, sinceMs), taskQueue),
      ...(maxWaiting !== undefined && { full }),
    },
  );
}

function ticketFor(
  { compactSlots: slots }: ResolvedSemaphore,
  { priority, maxWaiting }: ResolvedAcquire,
  sinceMs: number,
): Ticket {
  const { workflowId, runId, priority: ownPriority } = workflowInfo();
  const draft = draftTicket({ id: uuid4(), slots, sinceMs, priority, ownPriority, maxWaiting });
  return { ...draft, waiter: { workflowId, runId } };
}

async function timeClaim(
  semaphore: ResolvedSemaphore,
  slot: string,
  request: ResolvedAcquire,
  offer?: Offer,
): Promise<Permit | undefined> {
  const fromMs = Date.now();
  const permit = await claim(semaphore, slot, request, offer?.queueId);
  if (permit && offer) metrics.handoff(semaphore.resource, 'claim', Date.now() - fromMs);
  return permit;
}

/**
 * The atomic step. Nobody can recall a start that is under way, so this shields it from cancellation, and releases its permit
 * if the caller no longer wants it.
 */
async function claim(
  semaphore: ResolvedSemaphore,
  slot: string,
  request: ResolvedAcquire,
  watchedBy?: string,
): Promise<Permit | undefined> {
  const caller = CancellationScope.current();
  if (caller.consideredCancelled) return await caller.cancelRequested;
  const permit = await CancellationScope.nonCancellable(() => startPermit(semaphore, slot, request, watchedBy));
  if (!caller.consideredCancelled) return permit;
  await permit?.release();
  return await caller.cancelRequested;
}

/** `undefined` when the slot is held: the server already runs a Workflow of that ID. */
async function startPermit(
  { resource, compactSlots: slots, leaseMs, maxHoldMs, paceMs, taskQueue }: ResolvedSemaphore,
  slot: string,
  { purpose, outlivesRun }: ResolvedAcquire,
  watchedBy: string | undefined,
): Promise<Permit | undefined> {
  listenForRevocations();
  const options = { leaseMs, maxHoldMs, paceMs, taskQueue, purpose, outlivesRun, watchedBy, slots };
  const child = await claimSlot({ resource, slot }, options);
  if (!child) return undefined;
  const ref = { resource, slot, workflowId: child.workflowId, runId: child.firstExecutionRunId, leaseMs, paceMs };
  return new Permit(ref, endOfChild(child), outlivesRun);
}
