import { randomUUID } from 'node:crypto';
import { WorkflowExecutionAlreadyStartedError, WorkflowNotFoundError } from '@temporalio/client';
import { permitId } from '../../shared/permit-id';
import { PERMIT_WORKFLOW, type PermitInput, type PermitMemo, RELEASE } from '../../shared/protocol';
import { permitSummary } from '../../shared/summary';
import { WORKFLOW_PRIORITY } from '../../shared/workflow-priority';
import { monotonicMs } from '../clock';
import type { Request } from '../options';
import { Pollers } from '../pollers';
import { isTransient, type Server } from '../server';
import { Lease } from './lease';
import { Permit } from './permit';
import { PermitRun } from './permit-run';

/** The answer to a start that took longer than this may name a run which has ended meanwhile. */
const SLOW_MS = 1_000;

/** How long each call of a give-back may take. It is waited for: the caller may close the connection next. */
const GIVE_BACK_MS = 1_000;

/**
 * One try at one slot: starts the permit's Workflow, which the server refuses while another one runs.
 *
 * Overload and broken connections are never taken for a held slot, but retried, and then an answer may get lost although
 * the start was carried out. So a claim marks its permit by an ID of its own, to know it again.
 */
export class Claim {
  private readonly workflowId: string;
  private readonly claimId = randomUUID();
  /** From before the first attempt: the lease counts from here. */
  private readonly sentMs = monotonicMs();
  /** A start was carried out, or failed in a way that leaves that open. */
  private mayHold = false;

  constructor(
    private readonly server: Server,
    private readonly slot: string,
    private readonly request: Request,
    /** The queue whose turn this is. */
    private readonly watchedBy?: string,
  ) {
    this.workflowId = permitId({ resource: request.semaphore.resource, slot });
  }

  /**
   * @param untilMs when to stop retrying, on the monotonic clock
   * @returns the permit; `undefined` when somebody else has the slot
   * @throws the last transient error, when nothing got through; the request's abort reason; whatever else the server says
   */
  async make(untilMs: number): Promise<Permit | undefined> {
    const { signal } = this.request;
    const persistence = { untilMs, signal };
    try {
      const runId = await this.server.persist(() => this.start(), persistence);
      if (runId === undefined) return undefined;
      this.mayHold = true;
      const permit = await this.server.persist(() => this.permitOf(runId), persistence);
      if (!permit) {
        signal.throwIfAborted();
        if (monotonicMs() >= untilMs) return undefined;
        return await new Claim(this.server, this.slot, this.request, this.watchedBy).make(untilMs);
      }
      if (!signal.aborted) return permit;
      await permit.release();
    } catch (error) {
      if (this.mayHold) await this.giveBackIfOurs();
      throw error;
    }
    signal.throwIfAborted();
    return undefined;
  }

  /** The run ID of the permit that is ours, or `undefined`. */
  private async start(): Promise<string | undefined> {
    const { leaseMs, maxHoldMs, taskQueue } = this.request.semaphore;
    const { purpose } = this.request;
    const { client, identity } = this.server;
    const memo: PermitMemo = {
      leaseMs,
      holder: { identity },
      claimId: this.claimId,
      ...(purpose === undefined ? undefined : { purpose }),
    };
    const input: PermitInput = { ...memo, watchedBy: this.watchedBy };
    try {
      const { firstExecutionRunId } = await client.workflow.start(PERMIT_WORKFLOW, {
        workflowId: this.workflowId,
        workflowIdConflictPolicy: 'FAIL',
        args: [input],
        memo: { ...memo },
        priority: WORKFLOW_PRIORITY,
        staticSummary: permitSummary(identity, purpose),
        taskQueue,
        workflowExecutionTimeout: maxHoldMs,
      });
      return firstExecutionRunId;
    } catch (error) {
      if (!(error instanceof WorkflowExecutionAlreadyStartedError)) {
        this.mayHold ||= isTransient(error);
        throw error;
      }
      // Only an earlier attempt whose answer got lost can have made it ours.
      return this.mayHold ? await this.runOfOurs() : undefined;
    }
  }

  /** `undefined` when the run has ended meanwhile, or its lease is as good as over. */
  private async permitOf(runId: string): Promise<Permit | undefined> {
    const { resource, leaseMs, renewEveryMs, taskQueue } = this.request.semaphore;
    const ref = { resource, slot: this.slot, workflowId: this.workflowId, runId, leaseMs };
    const run = new PermitRun(this.server, ref);
    const lease = new Lease(leaseMs, this.sentMs);
    const slow = monotonicMs() - this.sentMs > SLOW_MS || lease.safeMs <= 0;
    if (!slow || ((await run.isRunning()) && lease.safeMs > 0)) {
      return new Permit(run, ref, lease, renewEveryMs, new Pollers(this.server, taskQueue));
    }
    await run.send(RELEASE);
    return undefined;
  }

  private async runOfOurs(): Promise<string | undefined> {
    try {
      const { runId, status, memo } = await this.server.client.workflow.getHandle(this.workflowId).describe();
      const ours = (memo as Partial<PermitMemo> | undefined)?.claimId === this.claimId;
      return ours && status.name === 'RUNNING' ? runId : undefined;
    } catch (error) {
      if (error instanceof WorkflowNotFoundError) return undefined;
      throw error;
    }
  }

  /** Tidies up after a claim that was given up. Whatever fails here, the lease ends the permit, and why we gave up counts more. */
  private async giveBackIfOurs(): Promise<void> {
    try {
      const runId = await this.server.call(() => this.runOfOurs(), GIVE_BACK_MS);
      const run = runId && new PermitRun(this.server, { workflowId: this.workflowId, runId });
      if (run) await run.send(RELEASE, GIVE_BACK_MS);
    } catch {
      // see above
    }
  }
}
