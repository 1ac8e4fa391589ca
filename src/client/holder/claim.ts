import { randomUUID } from 'node:crypto';
import { WorkflowExecutionAlreadyStartedError, WorkflowNotFoundError } from '@temporalio/client';
import { Acquirer, type AcquirerOptions } from '../../shared/acquirer';
import { Lease } from '../../shared/lease';
import { permitId } from '../../shared/permit-id';
import { TooFewSlots } from '../../shared/permit-set';
import {
  PACED_PERMIT_WORKFLOW,
  PERMIT_WORKFLOW,
  type PermitInput,
  type PermitMemo,
  RELEASE,
} from '../../shared/protocol';
import { permitSummary, refOf, WORKFLOW_PRIORITY } from '../../shared/request';
import { LineFullError, NoAnswerError } from '../errors';
import type { ClientMetrics } from '../metrics';
import type { ClientRequest } from '../options';
import { Pollers } from '../pollers';
import { isTransient, monotonicMs, type Server } from '../server';
import { Grant } from './grant';
import { PermitRun } from './permit-run';
import { ClientQueuePlace } from './queue-place';

/** When a start takes longer than this, its answer may name a run that has ended meanwhile. */
const SLOW_MS = 1_000;

/** How long a give-back may take. The acquire waits for it, since the caller may close the connection next. */
const GIVE_BACK_MS = 1_000;

/** … and so long where the acquire's own time is up. */
const LATE_GIVE_BACK_MS = 150;

/** What a claim asks for. */
export interface ClaimOptions {
  slot: string;
  request: ClientRequest;
  /** When to stop retrying, on the monotonic clock. */
  untilMs: number;
  /** The queue whose turn this is. */
  watchedBy?: string;
}

/** One try at one slot, under way. */
interface Claim extends ClaimOptions {
  readonly server: Server;
  readonly workflowId: string;
  readonly claimId: string;
  /** From before the first attempt: the lease counts from here. */
  readonly sentMs: number;
  /** Whether the server has, or may have, carried out a start. */
  mayHold: boolean;
}

/**
 * One try at one slot: starts the permit's Workflow, which the server refuses while another one runs.
 *
 * Overload and broken connections never count as a held slot. The claim is retried, and then an answer may get lost although
 * the server has carried out the start. So a claim marks its permit by an ID of its own, to know it again.
 *
 * @returns the permit; `undefined` when somebody else has the slot
 * @throws the last transient error when nothing got through; the request's abort reason; any other error of the server
 */
export async function claimSlot(server: Server, options: ClaimOptions): Promise<Grant | undefined> {
  const { slot, request, untilMs } = options;
  const workflowId = permitId({ resource: request.semaphore.resource, slot });
  const claim = { ...options, server, workflowId, claimId: randomUUID(), sentMs: monotonicMs(), mayHold: false };
  const { signal } = request;
  const persistence = { untilMs, signal };
  signal.throwIfAborted();
  try {
    const runId = await server.persist(() => start(claim), persistence);
    if (runId === undefined) {
      signal.throwIfAborted(); // a caller that does not wait takes `undefined` for "all slots are held"
      return undefined;
    }
    claim.mayHold = true;
    const grant = await server.persist(() => grantOf(claim, runId), persistence);
    if (!grant) {
      signal.throwIfAborted();
      return monotonicMs() < untilMs ? await claimSlot(server, options) : undefined;
    }
    if (!signal.aborted) return grant;
    await grant.release().catch((error: unknown) => {
      // The release has been sent, and takes effect when a worker is up. The caller's own reason counts more.
      if (!(error instanceof NoAnswerError)) throw error;
    });
  } catch (error) {
    if (claim.mayHold) await giveBackIfOurs(claim);
    throw error;
  }
  signal.throwIfAborted();
  return undefined;
}

/** The run ID of the permit that is ours, or `undefined`. */
async function start(claim: Claim): Promise<string | undefined> {
  const { server, workflowId, claimId, watchedBy, request } = claim;
  const { maxHoldMs, taskQueue } = request.semaphore;
  const { client, identity } = server;
  const memo: PermitMemo = { ...request.memo, holder: { identity }, claimId };
  const type = memo.paceMs === undefined ? PERMIT_WORKFLOW : PACED_PERMIT_WORKFLOW;
  const input: PermitInput = { ...memo, watchedBy };
  try {
    const { firstExecutionRunId } = await client.workflow.start(type, {
      workflowId,
      workflowIdConflictPolicy: 'FAIL',
      args: [input],
      memo: { ...memo },
      priority: WORKFLOW_PRIORITY,
      staticSummary: permitSummary(identity, memo.purpose),
      taskQueue,
      workflowExecutionTimeout: maxHoldMs,
    });
    return firstExecutionRunId;
  } catch (error) {
    if (!(error instanceof WorkflowExecutionAlreadyStartedError)) {
      claim.mayHold ||= isTransient(error);
      throw error;
    }
    // Only an earlier attempt whose answer got lost can have made it ours.
    return claim.mayHold ? await runOfOurs(claim) : undefined;
  }
}

/** `undefined` when the run has ended, or its lease is about to. */
async function grantOf({ server, slot, sentMs, request }: Claim, runId: string): Promise<Grant | undefined> {
  const { leaseMs, maxHoldMs, renewEveryMs, taskQueue } = request.semaphore;
  const ref = refOf(request, slot, runId);
  const run = new PermitRun(server, ref);
  const lease = new Lease(leaseMs, sentMs, maxHoldMs, monotonicMs);
  const slow = monotonicMs() - sentMs > SLOW_MS || lease.safeMs <= 0;
  if (!slow || ((await run.isRunning()) && lease.safeMs > 0)) {
    return new Grant(run, ref, lease, renewEveryMs, new Pollers(server, taskQueue));
  }
  await run.send(RELEASE);
  return undefined;
}

async function runOfOurs({ server, workflowId, claimId }: Claim): Promise<string | undefined> {
  try {
    const { runId, status, memo } = await server.client.workflow.getHandle(workflowId).describe();
    const ours = (memo as Partial<PermitMemo> | undefined)?.claimId === claimId;
    return ours && status.name === 'RUNNING' ? runId : undefined;
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return undefined;
    throw error;
  }
}

/** Tidies up after a claim that has failed. If this fails too, the lease ends the permit: the first error counts more. */
async function giveBackIfOurs(claim: Claim): Promise<void> {
  const { server, workflowId, untilMs } = claim;
  const endMs = monotonicMs() + (monotonicMs() < untilMs ? GIVE_BACK_MS : LATE_GIVE_BACK_MS);
  try {
    const runId = await server.call(() => runOfOurs(claim), endMs - monotonicMs());
    if (runId !== undefined) await new PermitRun(server, { workflowId, runId }).send(RELEASE, endMs - monotonicMs());
  } catch {
    // see above
  }
}

/** Slots that an acquirer tries in each round while the queue does not answer. Each is one call. */
const TRIES_PER_ROUND = 20;

type Tries = Pick<AcquirerOptions, 'deadlineMs' | 'firstTries' | 'triesBeforeJoin'>;

/** An acquirer whose claims are calls to the server. */
export function clientAcquirer(
  server: Server,
  request: ClientRequest,
  { metrics, ...tries }: Tries & { metrics: ClientMetrics },
): Acquirer<Grant> {
  const { slots, recheckAfterMs } = request.semaphore;
  const { deadlineMs } = tries;
  const { maxWaiting, permits } = request.ticket;
  const full = () => {
    const { resource } = request.semaphore;
    throw maxWaiting === undefined
      ? new TooFewSlots(resource, recheckAfterMs)
      : new LineFullError(resource, maxWaiting);
  };
  return new Acquirer(
    { slots, recheckAfterMs, triesPerRound: TRIES_PER_ROUND, ...tries },
    {
      nowMs: monotonicMs,
      random: Math.random,
      claim: async (slot, offer) => {
        const sinceMs = monotonicMs();
        const grant = await claimSlot(server, { slot, request, untilMs: deadlineMs, watchedBy: offer?.queueId });
        if (grant && offer) metrics.claimed(request.semaphore.resource, sinceMs);
        return grant;
      },
      place: () => new ClientQueuePlace(server, request, deadlineMs),
      ...((maxWaiting ?? permits) !== undefined && { full }),
    },
  );
}
