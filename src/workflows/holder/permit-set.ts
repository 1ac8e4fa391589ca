import type { Duration } from '@temporalio/common';
import { CancellationScope, sleep, workflowInfo } from '@temporalio/workflow';
import { earliest } from '../../shared/lease';
import type { ResolvedAcquire, ResolvedSemaphore } from '../../shared/options';
import {
  acquireInOrder,
  besideTheLine,
  byEntry,
  partsInOrder,
  rankOf,
  releaseInReverse,
  type SetPart,
  type Wanted,
  withoutHeld,
} from '../../shared/permit-set';
import { longestSetHoldMs, mayWaitOn } from '../../shared/run-limits';
import { checked, LineFullError, PermitLostError, PermitTimeoutError } from '../errors';
import { acquirePermit } from './acquire-permit';
import { checkSelfDeadlock } from './current-permit';
import type { Permit } from './permit';
import { KeptPermit, underPermits } from './with-permit';

/**
 * Permits of several resources, acquired together and released together. Each has a lease and a fencing token of its own.
 */
export class PermitSet<Permits extends readonly (Permit | Permit[])[] = readonly Permit[]> implements AsyncDisposable {
  /** Resolves when the first of them is lost, and names it. Never otherwise. */
  readonly lost: Promise<PermitLostError>;

  /** @internal Made by {@link acquireAll}. */
  constructor(
    /** In the order of the caller's entries. */
    readonly permits: Permits,
    private readonly inOrder: readonly Permit[],
  ) {
    this.lost = Promise.race(inOrder.map(({ lost }) => lost));
  }

  /** @internal The same set, with its permits in one list. */
  flat(): PermitSet {
    return new PermitSet(this.permits.flat() as Permit[], this.inOrder);
  }

  /** Starts the lease of each anew. @returns when the first of the leases ends now @throws PermitLostError when one has ended */
  async renew(lease?: Duration): Promise<Date> {
    return earliest(await Promise.all(this.inOrder.map((permit) => permit.renew(lease))));
  }

  /** Releases all permits, in the reverse of the order in which they were acquired. Idempotent. */
  async release(): Promise<void> {
    await releaseInReverse(this.inOrder);
  }

  /** `await using set = await acquireAll([…])` releases at the end of the block. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.release();
  }
}

/** A set that is wanted, and in what order its parts are claimed. */
export type WantedSet = readonly Wanted<ResolvedSemaphore>[];

/** Runs `fn` under a set, as `withPermits` says. */
export async function underSet<T>(
  wanted: WantedSet,
  request: ResolvedAcquire,
  fn: (permits: (Permit | Permit[])[]) => Promise<T>,
): Promise<T> {
  const held = await acquireKept(wanted, request);
  return await underPermits(
    held.map(({ permit }) => permit),
    () => fn(granted(wanted, held)),
  );
}

/** Acquires a set, as `acquireAll` says. */
export async function acquireSet(
  wanted: WantedSet,
  request: ResolvedAcquire,
): Promise<PermitSet<(Permit | Permit[])[]>> {
  const held = await acquireKept(wanted, request);
  for (const { permit } of held) permit.stopRenewing();
  return new PermitSet(
    granted(wanted, held),
    held.map(({ permit }) => permit.permit),
  );
}

interface Held {
  part: SetPart<ResolvedSemaphore>;
  permit: KeptPermit;
}

/** They are renewed from the moment that each is had. */
async function acquireKept(wanted: WantedSet, request: ResolvedAcquire): Promise<Held[]> {
  const parts = checked(() => partsInOrder(wanted, request));
  checkSelfDeadlock(parts, request);
  const sinceMs = Date.now();
  const deadlineMs = sinceMs + request.timeoutMs;
  const pause = async (ms: number, resource: string) => {
    const leftMs = deadlineMs - Date.now();
    await sleep(Math.max(1, Math.min(ms, leftMs)));
    if (leftMs <= ms) throw new PermitTimeoutError(resource, request.timeoutMs);
  };
  const isMaxHold = (error: unknown) =>
    error instanceof PermitLostError && error.how === 'timed-out' && mayWaitOn(workflowInfo().historyLength);
  return await besideTheLine(() => acquireOnce(parts, request, sinceMs), pause, Math.random, isMaxHold);
}

async function acquireOnce(
  parts: readonly SetPart<ResolvedSemaphore>[],
  request: ResolvedAcquire,
  sinceMs: number,
): Promise<Held[]> {
  const waiting = new CancellationScope();
  // All of them write into our history.
  const kept = parts.filter(({ isAccumulator }) => !isAccumulator);
  const longestMs = longestSetHoldMs(kept.map(({ pool }) => pool.renewEveryMs));
  let loss: PermitLostError | undefined;
  try {
    const acquire = async (part: SetPart<ResolvedSemaphore>, held: readonly KeptPermit[]) => {
      const permit = await acquirePart({ ...part, pool: heldFor(longestMs, part.pool) }, held, request, sinceMs);
      void permit.lost.then((error) => {
        loss ??= error;
        waiting.cancel();
      });
      return new KeptPermit(permit, part.pool.renewEveryMs);
    };
    const confirm = async () => {
      if (waiting.consideredCancelled) await waiting.cancelRequested; // which rejects
    };
    return await waiting.run(() => acquireInOrder(parts, acquire, confirm));
  } catch (error) {
    throw loss ?? error;
  }
}

/** The server then ends the permit, rather than the Workflow that renews it. */
function heldFor(longestMs: number, pool: ResolvedSemaphore): ResolvedSemaphore {
  const { leaseMs, paceMs = 0, maxHoldMs } = pool;
  return { ...pool, maxHoldMs: Math.min(maxHoldMs, Math.max(longestMs, leaseMs + paceMs)) };
}

async function acquirePart(
  { pool, resource, permits, isAccumulator }: SetPart<ResolvedSemaphore>,
  held: readonly KeptPermit[],
  request: ResolvedAcquire,
  sinceMs: number,
): Promise<Permit> {
  const slots = withoutHeld(pool, held);
  try {
    const outlivesRun = request.outlivesRun && !isAccumulator; // it is given back in this run, or dies with it
    const rank = rankOf(pool.resource, held);
    return await acquirePermit(
      { ...pool, slots },
      { ...request, permits, outlivesRun },
      { sinceMs, ofSet: true, rank },
    );
  } catch (error) {
    // The accumulator's permit is missing because somebody else accumulates this resource.
    if (error instanceof LineFullError) throw new LineFullError(resource, error.maxWaiting);
    throw error instanceof PermitTimeoutError ? new PermitTimeoutError(resource, request.timeoutMs) : error;
  }
}

function granted(wanted: WantedSet, held: readonly Held[]): (Permit | Permit[])[] {
  return byEntry(
    wanted,
    held.map(({ part, permit }) => ({ part, permit: permit.permit })),
  );
}
