import { Acquirer, type AcquirerOptions } from '../../shared/acquirer';
import { disagreementMessage } from '../../shared/declared-limits';
import type { ResolvedSemaphore } from '../../shared/options';
import { TooFewSlots } from '../../shared/permit-set';
import type { SlotsMark } from '../../shared/protocol';
import { again } from '../../shared/request';
import { monotonicMs } from '../server/clock';
import { LineFullError, PermitTimeoutError } from '../server/errors';
import { isTransient } from '../server/grpc-errors';
import type { Pollers } from '../server/pollers';
import type { Server } from '../server/server';
import { ANSWER_MS, claimSlot } from './claim';
import type { Closing } from './closing';
import type { Grant } from './grant';
import { heldHere } from './hold';
import type { ClientMetrics } from './metrics';
import { type ClientRequest, clientRequestOf, type ResolvedClientAcquire } from './options';
import { Permit } from './permit';
import { ClientQueuePlace } from './queue-place';

/** How many slots an acquirer tries before it joins the queue. Each try is one call. */
const FIRST_TRIES = 3;

/** Slots that an acquirer tries in each round while the queue does not answer. Each is one call. */
const TRIES_PER_ROUND = 20;

/** How long an acquire that does not wait for a slot waits for the server's answers, all together. */
const NO_WAIT_MS = 10_000;

/** How much the clocks of the server and of this machine may differ before a worker that polls looks like one that has ended. */
const CLOCKS_DIFFER_MS = 5_000;

/** What the acquires of one `SemaphoreClient` share. */
export interface AcquireContext {
  readonly server: Server;
  readonly metrics: ClientMetrics;
  /** The pollers of the permits' task queue. */
  readonly pollers: Pollers;
  /** Ends each wait when the client is closed. */
  readonly closing: Closing;
}

/** Waits for a permit that can rejoin the queue. Throws as {@link acquireGrant} does. @throws SelfDeadlockError */
export async function acquirePermit(
  context: AcquireContext,
  semaphore: ResolvedSemaphore,
  acquire: ResolvedClientAcquire,
): Promise<Permit> {
  heldHere.checkSelfDeadlock([semaphore], acquire);
  const request = requestNow(context, semaphore, acquire);
  return permitOf(context, request, await acquireGrant(context, request));
}

/** Does not wait. `undefined` when all slots are held, or with `fair` when others wait. */
export async function tryPermit(
  context: AcquireContext,
  semaphore: ResolvedSemaphore,
  acquire: ResolvedClientAcquire,
): Promise<Permit | undefined> {
  acquire.signal.throwIfAborted();
  const request = requestNow(context, semaphore, acquire);
  const grant = await underWay(context, request, (heeding) => claimEvery(context, heeding));
  return grant && permitOf(context, request, grant);
}

/**
 * Waits for one permit, which may be a part of a set.
 * @throws PermitTimeoutError, LineFullError, SemaphoreClosedError, the reason of the request's signal, or an error of the server
 */
export async function acquireGrant(context: AcquireContext, request: ClientRequest): Promise<Grant> {
  request.signal.throwIfAborted();
  return await underWay(context, request, (heeding) =>
    request.timeoutMs > 0 ? acquireWithin(context, heeding) : acquireNow(context, heeding),
  );
}

/** @param work heeds the signal of its request, which also aborts when the client is closed */
async function underWay<T extends Grant | undefined>(
  { closing, metrics }: AcquireContext,
  request: ClientRequest,
  work: (request: ClientRequest) => Promise<T>,
): Promise<T> {
  const { resource } = request.semaphore;
  return await closing.wait(request.signal, (signal) =>
    metrics.acquire(resource, signal, () => work({ ...request, signal })),
  );
}

function requestNow(
  { server }: AcquireContext,
  semaphore: ResolvedSemaphore,
  acquire: ResolvedClientAcquire,
): ClientRequest {
  return clientRequestOf(semaphore, acquire, { sinceMs: Date.now(), ...server.caller }, monotonicMs());
}

/** A permit that can rejoin the queue. The timeout then starts again. */
function permitOf(context: AcquireContext, request: ClientRequest, grant: Grant): Permit {
  const lineUp = () => acquireGrant(context, { ...again(request), fromMs: monotonicMs() });
  return new Permit(grant, { atCheckpoints: request.atCheckpoints, lineUp });
}

async function acquireNow(context: AcquireContext, request: ClientRequest): Promise<Grant> {
  const { resource } = request.semaphore;
  const grant = await claimEvery(context, request).catch((error: unknown) => {
    request.signal.throwIfAborted();
    if (!isTransient(error)) throw error;
    throw new PermitTimeoutError(resource, 0, { cause: error });
  });
  if (grant) return grant;
  // The server has just said that all slots are held.
  const { unpolled } = await context.pollers.circumstances();
  throw new PermitTimeoutError(resource, 0, { unpolled, own: heldHere.ownWait(request.semaphore) });
}

async function acquireWithin(context: AcquireContext, request: ClientRequest): Promise<Grant> {
  const { pollers } = context;
  const served = new AbortController();
  void pollers.warn(served.signal);
  const deadlineMs = request.fromMs + request.timeoutMs;
  const circumstances = pollers.circumstancesAt(deadlineMs, served.signal);
  const { resource } = request.semaphore;
  let place: ClientQueuePlace | undefined;
  try {
    const acquirer = callerAcquirer(context, request, deadlineMs, { onPlace: (it) => (place = it) });
    const grant = await acquirer.acquire();
    if (grant) return grant;
  } catch (error) {
    request.signal.throwIfAborted(); // its reason, such as a lost part of a set, may look like a failed call
    if (!isTransient(error)) throw error; // a transient error comes through only at the deadline
    throw new PermitTimeoutError(resource, request.timeoutMs, { cause: error });
  } finally {
    served.abort();
  }
  // If a waiter gets no message, it may have lost the server meanwhile, or the permits may have lost their workers.
  const own = heldHere.ownWait(request.semaphore);
  const { lastPolledMs = Number.POSITIVE_INFINITY, ...why } = await circumstances;
  // A worker that took the Workflow that waits here has polled again since.
  const forMs = Math.round((Date.now() - lastPolledMs) / 1_000) * 1_000;
  const isSilent = place?.isUnanswered && forMs > request.timeoutMs + CLOCKS_DIFFER_MS;
  const silent = { taskQueue: pollers.taskQueue, forMs };
  throw new PermitTimeoutError(resource, request.timeoutMs, { ...why, ...(isSilent && { silent }), own });
}

/** Tries every slot once; with `fair` only if no queue runs. */
async function claimEvery(context: AcquireContext, request: ClientRequest): Promise<Grant | undefined> {
  return await callerAcquirer(context, request, monotonicMs() + NO_WAIT_MS, { answerMs: ANSWER_MS }).tryNow();
}

function callerAcquirer(
  { server, metrics }: AcquireContext,
  request: ClientRequest,
  deadlineMs: number,
  tries: Pick<Tries, 'answerMs' | 'onPlace'>,
): Acquirer<Grant> {
  // A caller that was pre-empted and comes again at once would take the slot before its preemptor is told that the slot is free, every time.
  const joinsFirst = request.semaphore.fair || request.memo.preemptible !== undefined;
  const triesBeforeJoin = joinsFirst ? 0 : Number.POSITIVE_INFINITY;
  return clientAcquirer(server, request, { ...tries, deadlineMs, firstTries: FIRST_TRIES, triesBeforeJoin, metrics });
}

type Tries = Pick<AcquirerOptions, 'deadlineMs' | 'firstTries' | 'triesBeforeJoin'> & {
  /** How long each claim waits for the server's answer. */
  answerMs?: number;
  /** Is told of the place in the queue, if the acquirer takes one. */
  onPlace?: (place: ClientQueuePlace) => void;
};

/** An acquirer whose claims are calls to the server. */
export function clientAcquirer(
  server: Server,
  request: ClientRequest,
  { metrics, answerMs = Number.POSITIVE_INFINITY, onPlace, ...tries }: Tries & { metrics: ClientMetrics },
): Acquirer<Grant> {
  const { slots, recheckAfterMs } = request.semaphore;
  const { deadlineMs } = tries;
  const { maxWaiting, permits } = request.ticket;
  const full = (isSuperseded: boolean) => {
    const { resource } = request.semaphore;
    throw maxWaiting === undefined
      ? new TooFewSlots(resource, recheckAfterMs)
      : new LineFullError(resource, maxWaiting, isSuperseded);
  };
  return new Acquirer(
    { slots, recheckAfterMs, triesPerRound: TRIES_PER_ROUND, ...tries },
    {
      nowMs: monotonicMs,
      random: Math.random,
      claim: async (slot, offer) => {
        const sinceMs = monotonicMs();
        const untilMs = Math.min(deadlineMs, sinceMs + answerMs);
        const grant = await claimSlot(server, { slot, request, untilMs, watchedBy: offer?.queueId });
        if (grant && offer) metrics.claimed(request.semaphore.resource, sinceMs);
        if (grant && offer?.others !== undefined) warnOfDisagreement(request.semaphore, offer.others);
        return grant;
      },
      place: () => {
        const place = new ClientQueuePlace(server, request, deadlineMs);
        onPlace?.(place);
        return place;
      },
      ...((maxWaiting ?? permits) !== undefined && { full }),
    },
  );
}

/** The `code` of the Node warning that this process claims a slot that another caller does not know of. */
const DISAGREEMENT_WARNING = 'TEMPORAL_SEMAPHORE_DISAGREEMENT';

/** A process warns of at most this many different disagreements: each key of a resource may have one. */
const MAX_WARNINGS = 100;

const warnings = new Set<string>();

/** Emits a Node warning, once for the same numbers. @param others the mark of another caller's slots */
export function warnOfDisagreement(semaphore: ResolvedSemaphore, others: SlotsMark): void {
  const message = disagreementMessage(semaphore, others);
  if (warnings.has(message) || warnings.size >= MAX_WARNINGS) return;
  warnings.add(message);
  process.emitWarning(message, { code: DISAGREEMENT_WARNING });
}
