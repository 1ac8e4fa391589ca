import { workflowInfo } from '@temporalio/workflow';
import { HeldPermit, type PermitTerms } from '../../shared/held-permit';
import { Lease } from '../../shared/lease';
import { resolveRef } from '../../shared/options';
import type { PermitRef } from '../../shared/protocol';
import { checked, PermitLostError } from '../errors';
import { adoptSignal, deliver } from '../signals';
import { Grant } from './grant';
import { endOfAdopted } from './holder-inbox';

/**
 * A held slot, seen by the Workflow that holds it.
 *
 *     held --release()--> released
 *      |---permit Workflow closed--> lost
 *      |---a waiter of higher priority asks--> held, `preempted` resolves; lost when its grace is over
 *      '---detach()--> detached: another run adopts it
 *
 * @example
 * ```ts
 * await gpus.withPermit(async (permit) => {
 *   await train('a', { gpu: permit.slot, token: String(permit.token) });
 *   await permit.checkpoint(); // gives way here if a waiter of higher priority has asked
 *   await train('b', { gpu: permit.slot, token: String(permit.token) });
 * }, { priority: { priorityKey: 4 }, preemptible: { grace: '30s', atCheckpoints: true } });
 * ```
 */
export class Permit extends HeldPermit<Grant, PermitLostError> {
  /** Resolves when the permit ends before `release()`, and never otherwise. `withPermit` watches this promise for you. */
  readonly lost: Promise<PermitLostError>;

  /** @internal Resolves when the permit is lost, or when its holder must give way and does not do so at checkpoints. */
  readonly mustStop: Promise<PermitLostError>;

  private tellLost: (error: PermitLostError) => void = () => undefined;
  private tellStop: (error: PermitLostError) => void = () => undefined;

  /** @internal Made by `Semaphore`. */
  constructor(grant: Grant, terms: PermitTerms<Grant>) {
    super(grant, terms);
    this.lost = new Promise((resolve) => {
      this.tellLost = resolve;
    });
    this.mustStop = new Promise((resolve) => {
      this.tellStop = resolve;
    });
    this.take(grant);
  }

  protected override onLost(error: PermitLostError): void {
    this.tellLost(error);
    this.tellStop(error);
  }

  protected override onWanted(error: PermitLostError, mustStop: boolean): void {
    if (mustStop) this.tellStop(error);
  }

  protected override check<T>(check: () => T): T {
    return checked(check);
  }
}

/** Makes this Workflow the holder of a permit that was acquired elsewhere. Throws as `Semaphore.adopt` says. */
export async function adopt(ref: PermitRef): Promise<Permit> {
  const reference = checked(() => resolveRef(ref));
  const { workflowId, runId, workflowType } = workflowInfo();
  const lease = new Lease(reference.leaseMs, Date.now(), Number.POSITIVE_INFINITY, Date.now);
  const permit = new Permit(new Grant(reference, endOfAdopted(reference), lease), { outlivesRun: true });
  const delivery = await deliver(reference, adoptSignal, { holder: { workflowId, runId, workflowType } });
  if (delivery !== 'delivered') throw new PermitLostError(reference, reference.runId, 'unknown');
  return permit;
}
