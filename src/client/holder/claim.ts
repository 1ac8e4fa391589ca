import { randomUUID } from 'node:crypto';
import { WorkflowExecutionAlreadyStartedError, WorkflowNotFoundError } from '@temporalio/client';
import { Lease } from '../../shared/lease';
import { isOpen } from '../../shared/open';
import { permitId } from '../../shared/permit-id';
import {
  PACED_PERMIT_WORKFLOW,
  PERMIT_WORKFLOW,
  type PermitInput,
  type PermitMemo,
  RELEASE,
} from '../../shared/protocol';
import { permitSummary, refOf, WORKFLOW_PRIORITY } from '../../shared/request';
import { monotonicMs, pause } from '../server/clock';
import { isTransient } from '../server/grpc-errors';
import { PermitRun } from '../server/permit-run';
import { Pollers } from '../server/pollers';
import { awaited, LAST_CALL_MS, type Persistence, type Server } from '../server/server';
import { Grant } from './grant';
import type { ClientRequest } from './options';

/** If a start takes longer than this, its answer may name a run that has ended meanwhile. */
const SLOW_MS = 1_000;

/** How long a claim waits for the server's answer if its caller does not wait for a slot. */
export const ANSWER_MS = 400;

/**
 * When a failed claim looks for its permit: the server may carry out a start a while after the call for it has failed. Each time counts
 * from the look before.
 */
const LOOKS_AFTER_MS = [0, 500, 1_000, 3_000, 5_000];

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
 * the server has carried out the start. So each claim marks its permit with a unique ID, by which it recognises the permit.
 *
 * A claim can't be recalled. If its caller no longer waits, the claim goes on until its answer comes, and gives back what it has won.
 *
 * @returns the permit; `undefined` if another holder has the slot
 * @throws a transient error when nothing got through in time; the request's abort reason; any other error of the server
 */
export async function claimSlot(server: Server, options: ClaimOptions): Promise<Grant | undefined> {
  const { slot, request, untilMs } = options;
  const { signal } = request;
  const workflowId = permitId({ resource: request.semaphore.resource, slot });
  for (;;) {
    signal.throwIfAborted();
    const claim = { ...options, server, workflowId, claimId: randomUUID(), sentMs: monotonicMs(), mayHold: false };
    const claiming = attempt(claim);
    try {
      const won = await awaited(claiming, untilMs + LAST_CALL_MS, signal);
      signal.throwIfAborted(); // a caller that does not wait takes `undefined` for "all slots are held"
      if (won !== 'over') return won;
    } catch (error) {
      await server.leaveBehind(giveBack(claim, claiming));
      throw error;
    }
    if (monotonicMs() >= untilMs) return undefined;
  }
}

/** `'over'`: the slot was ours, but the lease ended before we knew. */
async function attempt(claim: Claim): Promise<Grant | 'over' | undefined> {
  const { server, untilMs, request } = claim;
  const persistence = { untilMs, signal: request.signal, finishes: true };
  const runId = await server.persist(() => start(claim), persistence);
  if (runId === undefined) return undefined;
  claim.mayHold = true;
  return (await grantOf(claim, runId, persistence)) ?? 'over';
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
async function grantOf(
  { server, slot, sentMs, request }: Claim,
  runId: string,
  persistence: Persistence,
): Promise<Grant | undefined> {
  const { leaseMs, maxHoldMs, renewEveryMs, taskQueue } = request.semaphore;
  const ref = refOf(request, slot, runId);
  const run = new PermitRun(server, ref);
  const lease = new Lease(leaseMs, sentMs, maxHoldMs, monotonicMs);
  const slow = monotonicMs() - sentMs > SLOW_MS || lease.safeMs <= 0;
  if (!slow || ((await server.persist(() => run.isOpen(), persistence)) && lease.safeMs > 0)) {
    return new Grant(run, ref, lease, renewEveryMs, new Pollers(server, taskQueue));
  }
  await server.persist(() => run.send(RELEASE), persistence);
  return undefined;
}

async function runOfOurs({ server, workflowId, claimId }: Claim): Promise<string | undefined> {
  try {
    const { runId, status, memo } = await server.client.workflow.getHandle(workflowId).describe();
    const ours = (memo as Partial<PermitMemo> | undefined)?.claimId === claimId;
    return ours && isOpen({ status }) ? runId : undefined;
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return undefined;
    throw error;
  }
}

/** Gives back what a claim wins after its caller has stopped waiting. If this fails, the lease ends the permit. */
async function giveBack(claim: Claim, claiming: ReturnType<typeof attempt>): Promise<void> {
  const won = await claiming.catch(() => 'unknown' as const);
  if (won instanceof Grant) return await won.release();
  if (won !== 'unknown' || !claim.mayHold) return;
  const { server, workflowId, request } = claim;
  const persistence = {
    untilMs: monotonicMs() + request.semaphore.leaseMs,
    signal: new AbortController().signal,
  };
  for (const afterMs of LOOKS_AFTER_MS) {
    await pause(afterMs, persistence.signal);
    const runId = await server.persist(() => runOfOurs(claim), persistence);
    if (runId === undefined) continue;
    const run = new PermitRun(server, { workflowId, runId });
    await server.persist(() => run.send(RELEASE), persistence);
    return;
  }
}
