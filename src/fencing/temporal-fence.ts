import { FencingToken, type FencingTokenSource, StaleTokenError } from '../shared/fencing-token';
import { type HasStatus, isOpen } from '../shared/open';
import { checkResource } from '../shared/permit-id';
import { type Admission, type FenceGuard, tokenOf } from './guard';

/** The part that {@link TemporalFence} needs of a Temporal `Client`. With it, this entry loads without the SDK. */
export interface DescribingClient {
  readonly workflow: {
    getHandle(workflowId: string): {
      describe(): Promise<HasStatus & { readonly runId: string }>;
    };
  };
}

/**
 * A guard that asks Temporal itself whether the permit is held at this moment. Use it for a resource that cannot store
 * anything, like a device or a third party's API. The guard does not depend on the order of run IDs, so it works with any
 * server. It refuses a holder from the moment the permit ends, not only when the next holder has been admitted.
 *
 * Not guaranteed: that the permit is still held when your write arrives. A process that stops between the check and the
 * write writes late, however short the gap is. Where the resource can compare and store, use a guard that does both in one
 * step. Each check is one call to the server. If the call fails, the guard throws its error and admits no token.
 *
 * @example
 * ```ts
 * const fence = new TemporalFence('robot-arm', client);
 * await fence.admit(permit); // throws StaleTokenError when the permit has ended
 * await arm.move(position);
 * ```
 */
export class TemporalFence implements FenceGuard {
  /**
   * @param client a Temporal `Client` for the namespace of the permits
   * @throws InvalidOptionsError when `resource` is not a name that the protocol allows
   */
  constructor(
    readonly resource: string,
    private readonly client: DescribingClient,
  ) {
    checkResource(resource);
  }

  /**
   * Admits the token while its run has not ended: also while the run is paused on the server, for it keeps its slot.
   *
   * @throws StaleTokenError when the run has ended; `newest` is the slot's later permit, if there is one
   * @throws MalformedTokenError, WrongResourceError: see {@link FenceGuard.admit}
   */
  async admit(source: FencingTokenSource): Promise<Admission> {
    const token = tokenOf(this.resource, source);
    const latest = await this.describeLatest(token.workflowId);
    if (latest?.runId === token.runId && isOpen(latest)) return { token };
    const isLater = latest && latest.runId !== token.runId;
    throw new StaleTokenError(token, isLater ? FencingToken.from({ ...token, runId: latest.runId }) : undefined);
  }

  /** The latest run of that ID. At most one runs at a time, so an earlier one has ended. */
  private async describeLatest(workflowId: string) {
    try {
      return await this.client.workflow.getHandle(workflowId).describe();
    } catch (error) {
      // The run is past its retention, or never started: it is not held. The error's class is the SDK's, which is not loaded here.
      if (error instanceof Error && error.name === 'WorkflowNotFoundError') return undefined;
      throw error;
    }
  }
}
