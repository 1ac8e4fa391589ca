import type { FencingToken } from '../../shared/fencing-token';
import type { Permit } from '../holder/permit';
import { lossOver, type PermitLostError } from '../server/errors';

/**
 * One call's turn under a permit of a {@link PermitPool}. Others had the same permit before, and others will have it after:
 * all of them carry its run ID, and so the same fencing token. To the server and to a fence they are one holder.
 */
export class PooledPermit implements AsyncDisposable {
  /** The name of the shared thing. */
  readonly resource: string;
  /** Which of the resource's slots the permit holds. */
  readonly slot: string;
  /** The permit's Workflow, `permit:<resource>:<slot>`. */
  readonly workflowId: string;
  /** It orders the fencing tokens of one slot: see `Permit.runId`. */
  readonly runId: string;

  private controller: AbortController | undefined;
  private loss: PermitLostError | undefined;
  private isOver = false;
  /** The permit of the key. */
  private behind: PooledPermit | undefined;

  /** @internal Made by `PermitPool`. */
  constructor(
    private readonly permit: Permit,
    private readonly over: () => void,
  ) {
    this.resource = permit.resource;
    this.slot = permit.slot;
    this.workflowId = permit.workflowId;
    this.runId = permit.runId;
  }

  /** The permit's fencing token, which all calls under the permit share: see `Permit.token`. */
  get token(): FencingToken {
    return this.permit.token;
  }

  /**
   * Aborts when the permit is lost during this call, with the {@link PermitLostError} as its reason: see `Permit.signal`. After
   * `release` it stays as it is.
   */
  get signal(): AbortSignal {
    this.look();
    this.controller ??= new AbortController();
    if (this.loss && !this.controller.signal.aborted) this.controller.abort(this.loss);
    return this.controller.signal;
  }

  /** When the lease ends, as far as is known here; the pool renews it. */
  get deadline(): Date {
    return this.permit.deadline;
  }

  /** Lets the next caller have the permit. Idempotent. The pool decides when to give the permit back to the server. */
  release(): void {
    if (this.isOver) return;
    this.look();
    this.isOver = true;
    this.over();
    this.behind?.release();
  }

  /** `await using permit = await pool.acquire()` releases at the end of the block. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.release();
  }

  /** @internal From now on, this also holds the permit of its key, and releases it at its own release. */
  keep(behind: PooledPermit): this {
    this.behind = behind;
    const { signal } = behind;
    if (signal.aborted) this.lose(signal.reason);
    else signal.addEventListener('abort', () => this.lose(signal.reason), { once: true });
    return this;
  }

  /** @internal The permit is lost. */
  lose(loss: PermitLostError): void {
    if (this.isOver) return;
    this.loss = loss;
    this.controller?.abort(loss);
  }

  /** @internal @param thrown what the call threw @throws PermitLostError when the permit was lost before the call was over */
  throwIfLost(thrown: unknown = this.loss): void {
    this.look();
    if (this.loss) throw lossOver(this.loss, thrown);
  }

  /** Reads the clock too: a process that was stopped may not know of the loss yet. */
  private look(): void {
    if (this.isOver || this.loss) return;
    for (const { signal } of this.behind ? [this.permit, this.behind] : [this.permit]) {
      if (signal.aborted && !this.loss) this.lose(signal.reason);
    }
  }
}
