import { CancellationScope, sleep, workflowInfo } from '@temporalio/workflow';
import type { ResolvedAcquire, ResolvedSemaphore } from '../../shared/options';
import {
  acquireInOrder,
  acquireUntilEnough,
  HeldSet,
  partsInOrder,
  permitsByEntry,
  type SetPart,
  ticketPartOf,
  type Wanted,
  withoutHeld,
} from '../../shared/permit-set';
import { again, type Caller, requestOf } from '../../shared/request';
import { longestSetHoldMs, mayWaitOn } from '../../shared/run-limits';
import { checked, LineFullError, PermitLostError, PermitTimeoutError } from '../errors';
import { acquireGrant, callerNow } from './acquire-permit';
import type { Grant } from './grant';
import { heldHere, holdAllWhile, KeptPermit } from './hold';
import { Permit } from './permit';

/**
 * Permits of several resources, acquired together and released together. Each has its own lease and fencing token.
 *
 * @example
 * ```ts
 * import { acquireAll } from 'temporal-semaphore/workflow';
 *
 * const set = await acquireAll([licences, gpus]);
 * const [licence, gpu] = set.permits;
 * await batch(licence.slot, gpu.slot);
 * await set.renew('1h');
 * await batch(licence.slot, gpu.slot);
 * await set.release();
 * ```
 */
export class PermitSet<Permits extends readonly (Permit | Permit[])[] = readonly Permit[]> extends HeldSet<
  Permit,
  Permits
> {
  /** Resolves when the first of the permits is lost, with an error that names that permit. Never resolves otherwise. */
  readonly lost: Promise<PermitLostError>;

  /** @internal Made by `acquireAll`. */
  constructor(permits: Permits, inOrder: readonly Permit[]) {
    super(permits, inOrder);
    this.lost = Promise.race(inOrder.map(({ lost }) => lost));
  }
}

/** The set that a caller wants. */
export type WantedSet = readonly Wanted<ResolvedSemaphore>[];

/** Runs `fn` under a set, as `withPermits` says. */
export async function withSet<T>(
  wanted: WantedSet,
  acquire: ResolvedAcquire,
  fn: (permits: (Permit | Permit[])[]) => T | Promise<T>,
  isWholeRun = false,
): Promise<T> {
  const held = await acquireKept(wanted, acquire);
  const { permits, inOrder } = permitsOf(wanted, held, acquire);
  const kept = held.map(({ grant }) => grant);
  return await holdAllWhile(inOrder, kept, () => fn(permits), isWholeRun);
}

/** Acquires a set, as `acquireAll` says. */
export async function acquireSet(
  wanted: WantedSet,
  acquire: ResolvedAcquire,
): Promise<PermitSet<(Permit | Permit[])[]>> {
  const held = await acquireKept(wanted, acquire);
  for (const { grant } of held) grant.stopRenewing();
  const { permits, inOrder } = permitsOf(wanted, held, acquire);
  return new PermitSet(permits, inOrder);
}

type Part = SetPart<ResolvedSemaphore>;

/** A grant of a set, which is renewed as soon as it is acquired. */
class KeptGrant extends KeptPermit<Grant> {
  readonly resource = this.permit.ref.resource;
  readonly slot = this.permit.ref.slot;
}

async function acquireKept(wanted: WantedSet, acquire: ResolvedAcquire) {
  const parts = checked(() => partsInOrder(wanted, acquire));
  heldHere.checkSelfDeadlock(
    parts.map(({ semaphore }) => semaphore),
    acquire,
  );
  const caller = callerNow();
  const deadlineMs = caller.sinceMs + acquire.timeoutMs;
  const pause = async (ms: number, resource: string) => {
    const leftMs = deadlineMs - Date.now();
    await sleep(Math.max(1, Math.min(ms, leftMs)));
    if (leftMs <= ms) throw new PermitTimeoutError(resource, acquire.timeoutMs);
  };
  const isMaxHold = (error: unknown) =>
    error instanceof PermitLostError && error.how === 'timed-out' && mayWaitOn(workflowInfo().historyLength);
  return await acquireUntilEnough(() => acquireOnce(parts, acquire, caller), pause, Math.random, isMaxHold);
}

async function acquireOnce(parts: readonly Part[], options: ResolvedAcquire, caller: Caller) {
  const waiting = new CancellationScope();
  // The renewals of all permits together write into our history.
  const kept = parts.filter(({ role }) => role !== 'accumulator');
  const longestMs = longestSetHoldMs(kept.map(({ semaphore }) => semaphore.renewEveryMs));
  let loss: PermitLostError | undefined;
  const lost = (error: PermitLostError) => {
    loss ??= error;
    waiting.cancel();
  };
  try {
    const acquire = async (part: Part, held: readonly KeptGrant[], isAgain: boolean) => {
      const grant = await acquirePart(part, heldFor(longestMs, part.semaphore), held, options, caller, isAgain);
      grant.watch({ lost, wanted: () => undefined });
      return new KeptGrant(grant, part.semaphore.renewEveryMs);
    };
    const confirm = async () => {
      if (waiting.consideredCancelled) await waiting.cancelRequested; // which rejects
    };
    return await waiting.run(() => acquireInOrder(parts, acquire, confirm));
  } catch (error) {
    throw loss ?? error;
  }
}

/** Bounds the hold, so that the server ends the permit, and not the Workflow that renews it. */
function heldFor(longestMs: number, semaphore: ResolvedSemaphore): ResolvedSemaphore {
  const { leaseMs, paceMs = 0, maxHoldMs } = semaphore;
  return { ...semaphore, maxHoldMs: Math.min(maxHoldMs, Math.max(longestMs, leaseMs + paceMs)) };
}

async function acquirePart(
  part: Part,
  semaphore: ResolvedSemaphore,
  held: readonly KeptGrant[],
  acquire: ResolvedAcquire,
  caller: Caller,
  isAgain: boolean,
): Promise<Grant> {
  const outlivesRun = acquire.outlivesRun && part.role !== 'accumulator'; // that permit is given back in this run, or ends with it
  const request = requestOf(
    withoutHeld(semaphore, held),
    { ...acquire, key: part.key, outlivesRun },
    caller,
    ticketPartOf(part, held),
  );
  try {
    return await acquireGrant(isAgain ? again(request) : request);
  } catch (error) {
    // The accumulator's permit is missing because another caller accumulates this resource.
    if (error instanceof LineFullError) throw new LineFullError(part.resource, error.maxWaiting, error.superseded);
    if (!(error instanceof PermitTimeoutError) || error.resource === part.resource) throw error;
    throw new PermitTimeoutError(part.resource, acquire.timeoutMs);
  }
}

function permitsOf(
  wanted: WantedSet,
  held: readonly { part: Part; grant: KeptGrant }[],
  { outlivesRun }: ResolvedAcquire,
) {
  return permitsByEntry(
    wanted,
    held,
    (own, behind, index) => new Permit(own.permit, { key: wanted[index]?.key, behind: behind?.permit, outlivesRun }),
  );
}
