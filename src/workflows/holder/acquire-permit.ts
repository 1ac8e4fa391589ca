import { CancellationScope, uuid4, workflowInfo } from '@temporalio/workflow';
import { Acquirer, type Offer } from '../../shared/acquirer';
import { Lease } from '../../shared/lease';
import type { ResolvedAcquire, ResolvedSemaphore } from '../../shared/options';
import { TooFewSlots } from '../../shared/permit-set';
import { waitingAgain } from '../../shared/preemption';
import type { Ticket } from '../../shared/protocol';
import { draftTicket, type Rank } from '../../shared/ticket';
import { LineFullError, PermitTimeoutError } from '../errors';
import { metrics, timeAcquire } from '../metrics';
import { claimSlot, type PermitChild } from '../permit/claim';
import { WorkflowQueuePlace } from '../queue/queue-place';
import { shielded } from '../shielded';
import { listenForPreemptions, listenForRevocations } from './holder-inbox';
import { Permit } from './permit';
import { endOfChild } from './permit-end';

/**
 * Each try of a held slot costs a Workflow five history events. When all slots are held, few tries are better. When half are
 * free, two tries find one three times in four. The rounds are for a queue that does not answer, which may last for hours.
 */
const TRIES = { firstTries: 2, triesPerRound: 2 };

/** Where an acquire stands. */
interface Standing {
  /** When the caller began to wait, for this permit or for those before it: its place in line. */
  sinceMs: number;
  /** From when its timeout counts. @default sinceMs */
  fromMs?: number;
  /** The permit is one of a set, so it has no place of its own to which it could return. */
  ofSet?: boolean;
  /** How the permits that the caller keeps meanwhile rank it. */
  rank?: Rank;
}

/**
 * Waits for a permit.
 * @throws PermitTimeoutError, and CancelledFailure when the current scope is cancelled
 */
export async function acquirePermit(
  semaphore: ResolvedSemaphore,
  request: ResolvedAcquire,
  standing: Standing,
): Promise<Permit> {
  const { resource } = semaphore;
  const { timeoutMs, attempts } = request;
  const { fromMs = standing.sinceMs } = standing;
  const timer = timeAcquire(resource);
  try {
    const permit =
      timeoutMs === 0
        ? await acquirer(semaphore, request, standing).tryOnce(attempts)
        : await acquirer(semaphore, request, standing, fromMs + timeoutMs).acquire();
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
    return timer.ended(await acquirer(semaphore, request, { sinceMs: Date.now() }).tryOnce(request.attempts));
  } catch (error) {
    throw timer.failed(error);
  }
}

function acquirer(
  semaphore: ResolvedSemaphore,
  request: ResolvedAcquire,
  { sinceMs, ofSet, rank }: Standing,
  deadlineMs = Number.POSITIVE_INFINITY,
): Acquirer<Permit> {
  const again = ofSet ? undefined : lineUpAgain(semaphore, request, sinceMs);
  const { resource, slots, fair, recheckAfterMs, taskQueue } = semaphore;
  const { maxWaiting, permits } = request;
  const full = () => {
    throw maxWaiting === undefined
      ? new TooFewSlots(resource, recheckAfterMs)
      : new LineFullError(resource, maxWaiting);
  };
  return new Acquirer(
    { slots, deadlineMs, recheckAfterMs, ...TRIES, triesBeforeJoin: fair ? 0 : 1 },
    {
      nowMs: Date.now,
      random: Math.random,
      claim: (slot, offer) => timeClaim({ semaphore, slot, request, again }, offer),
      place: () => new WorkflowQueuePlace(resource, ticketFor(semaphore, request, sinceMs, rank), taskQueue),
      ...((maxWaiting ?? permits) !== undefined && { full }),
    },
  );
}

function ticketFor(
  { compactSlots: slots }: ResolvedSemaphore,
  { priority, maxWaiting, preempt, permits }: ResolvedAcquire,
  sinceMs: number,
  rank: Rank | undefined,
): Ticket {
  const { workflowId, runId, priority: ownPriority } = workflowInfo();
  const draft = draftTicket({ id: uuid4(), slots, sinceMs, priority, ownPriority, maxWaiting, preempt, permits, rank });
  return { ...draft, waiter: { workflowId, runId } };
}

/** What a claim is for. */
interface Claim {
  semaphore: ResolvedSemaphore;
  slot: string;
  request: ResolvedAcquire;
  /** Lines up again with the old place, when the permit was given up. */
  again: (() => Promise<Permit>) | undefined;
}

/** In strict order: the slot that was given up is for those before it. */
function lineUpAgain(semaphore: ResolvedSemaphore, request: ResolvedAcquire, sinceMs: number): () => Promise<Permit> {
  const again = { ...request, ...waitingAgain(request) };
  return () => acquirePermit({ ...semaphore, fair: true }, again, { sinceMs, fromMs: Date.now() });
}

/** On the way to a permit that nobody waits for, each async function costs a tenth of a millisecond: see {@link shielded}. */
function timeClaim(wanted: Claim, offer?: Offer): Promise<Permit | undefined> {
  return offer ? claimOffered(wanted, offer) : claim(wanted);
}

async function claimOffered(wanted: Claim, offer: Offer): Promise<Permit | undefined> {
  const fromMs = Date.now();
  const permit = await claim(wanted, offer.queueId);
  if (permit) metrics.handoff(wanted.semaphore.resource, 'claim', Date.now() - fromMs);
  return permit;
}

/**
 * The atomic step. Nobody can recall a start that is under way, so this shields it from cancellation, and releases its permit
 * if the caller no longer wants it. `undefined` when the slot is held: the server already runs a Workflow of that ID.
 */
async function claim(wanted: Claim, watchedBy?: string): Promise<Permit | undefined> {
  const { semaphore, slot, request } = wanted;
  const caller = CancellationScope.current();
  if (caller.consideredCancelled) return await caller.cancelRequested;
  const { resource, compactSlots: slots, leaseMs, maxHoldMs, paceMs, taskQueue } = semaphore;
  const { purpose, outlivesRun, preemptible } = request;
  listenForRevocations();
  if (preemptible) listenForPreemptions();
  const options = { leaseMs, maxHoldMs, paceMs, taskQueue, purpose, preemptible, outlivesRun, watchedBy, slots };
  const sentMs = Date.now();
  const child = await shielded(() => claimSlot({ resource, slot }, options));
  const permit = child && permitOf(child, wanted, sentMs);
  if (!caller.consideredCancelled) return permit;
  await permit?.release();
  return await caller.cancelRequested;
}

function permitOf(child: PermitChild, { semaphore, slot, request, again }: Claim, sentMs: number): Permit {
  const { resource, leaseMs, maxHoldMs, paceMs } = semaphore;
  const { outlivesRun, preemptible } = request;
  const ref = { resource, slot, workflowId: child.workflowId, runId: child.firstExecutionRunId, leaseMs, paceMs };
  const lease = new Lease(leaseMs, sentMs, maxHoldMs, Date.now);
  return new Permit(preemptible ? { ...ref, preemptible: true } : ref, endOfChild(child), lease, {
    outlivesRun,
    atCheckpoints: preemptible?.atCheckpoints,
    again,
  });
}
