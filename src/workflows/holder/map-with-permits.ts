import type { Duration } from '@temporalio/common';
import { CancellationScope, isCancellation, workflowInfo } from '@temporalio/workflow';
import { refuse } from '../../shared/invalid-options';
import { type Items, Lanes } from '../../shared/lanes';
import { type MapOptions, type MapOutcome, resolveMap, resultsOf } from '../../shared/map-options';
import { type ResolvedAcquire, type ResolvedSemaphore, resolveAcquire } from '../../shared/options';
import { refusePace } from '../../shared/pace';
import { checked } from '../errors';
import { acquirePermit } from './acquire-permit';
import { checkSelfDeadlock } from './current-permit';
import type { Permit } from './permit';
import { Semaphore } from './semaphore';
import { withHeldPermit } from './with-permit';

/** How {@link mapWithPermits} works through its items in a Workflow. */
export interface WorkflowMapOptions extends MapOptions {
  semaphore: Semaphore;
  /** How many items one permit serves at most, one after the other. @default no limit */
  chunk?: number;
  /**
   * How long one permit serves item after item; at the end of the item that passes this time, it goes back, and the Workflow lines
   * up for another one. A Workflow does not learn whether others wait. Each hand-over costs it 14 events or more.
   * @default 10 seconds
   */
  reuseFor?: Duration;
  /**
   * The number of the first item, from 0. With it, the call resolves with a {@link MapPart}: before the run is too long for the
   * server, it begins no further item.
   */
  cursor?: number;
}

/** What one run has done of a collection. */
export interface MapPart<Outcome> {
  /** Of the items that this run has done, in their order. */
  results: Outcome[];
  /** Where the next run goes on; absent when all is done. Every run gets on by one item at least. */
  cursor?: number;
}

/** As {@link mapWithPermits} resolves: a {@link MapPart} where there is a `cursor`, else all results. */
export type Mapped<R, Options> = Options extends { cursor: number }
  ? MapPart<MapOutcome<R, Options>>
  : MapOutcome<R, Options>[];

/** An end that comes in one Workflow Task with the item's result is through to the permit after four microtasks. */
const LOSS_STEPS = 6;

const DEFAULTS = { chunk: Number.POSITIVE_INFINITY, reuseForMs: 10_000 };

/**
 * Runs `fn` for each item under a permit, with at most `concurrency` at once, and gives the results in the order of the items. A
 * permit serves one item after the other, so a short item costs no hand-over. Items may be lazy: they are asked for shortly
 * before they begin, and while they don't come, no permit is held.
 *
 * A long collection needs a `cursor`. The history of one run has a limit, so each run does a part, and the next goes on:
 * a run begins no further item when the server suggests to continue as new. The permits are given back in between.
 *
 * When an item fails, with `onError: 'stop'` no further one begins, those that run come to their end, and this rejects. With
 * `'collect'` the others go on. When a permit is lost, the item that ran under it fails with a `PermitLostError`, and the
 * others go on as `onError` says. A cancelled caller cancels all.
 *
 * @param items a list; or what gives one item after the other; or a function that gives those from a number on
 * @param fn is given the item, its permit and its number; activities in it carry the permit's fencing token
 * @throws the first failure of an item, with `onError: 'stop'`; the failure of the source
 * @throws CancelledFailure when the current scope is cancelled
 * @throws SelfDeadlockError inside `withPermit`s that hold all permits of this resource
 * @throws ApplicationFailure of type `InvalidOptionsError`
 *
 * @example
 * ```ts
 * export async function embedAll(ids: string[], cursor = 0): Promise<void> {
 *   const part = await mapWithPermits(ids, (id) => embed(id), { semaphore: vendor, cursor });
 *   if (part.cursor !== undefined) await continueAsNew<typeof embedAll>(ids, part.cursor);
 * }
 * ```
 */
export async function mapWithPermits<T, R, const Options extends WorkflowMapOptions>(
  items: Items<T>,
  fn: (item: T, permit: Permit, index: number) => Promise<R>,
  options: Options,
): Promise<Mapped<R, Options>> {
  const { rules, pool, request } = checked(() => resolve(items, fn, options));
  checkSelfDeadlock([{ pool }], request);
  const isPart = options.cursor !== undefined;
  const scope = CancellationScope.current();
  const { outcomes, next } = await new Lanes<T, R, Permit>(items, fn, rules, {
    nowMs: Date.now,
    open: (use) => openLane(pool, request, use),
    lossOf: async (permit) => {
      for (let step = 0; step < LOSS_STEPS; step++) await undefined;
      return permit.heardLoss;
    },
    isHeld: (permit) => permit.isHeld,
    // That of a scope which can't be cancelled rejects all the same when its parent is cancelled.
    cancelled: scope.cancellable ? scope.cancelRequested : new Promise<never>(() => undefined),
    isFull: () => isPart && workflowInfo().continueAsNewSuggested,
  }).run();
  const results = resultsOf(outcomes, rules);
  return (isPart ? { results, ...(next !== undefined && { cursor: next }) } : results) as Mapped<R, Options>;
}

function resolve(items: unknown, fn: unknown, options: WorkflowMapOptions) {
  if (typeof options !== 'object' || options === null) refuse('options', 'an object', options);
  const { semaphore, priority, purpose } = options;
  if (!(semaphore instanceof Semaphore)) refuse('semaphore', 'a Semaphore', typeof semaphore);
  const pool = semaphore.options;
  if (pool.perKey !== undefined) refuse('semaphore', 'one without perKey: items share its permits', 'perKey');
  refusePace(pool.paceMs);
  const rules = resolveMap(items, fn, options, { ...DEFAULTS, concurrency: pool.slots.length });
  return { rules, pool, request: resolveAcquire({ priority, purpose }) };
}

/** Only the wait can be left: with a permit, the lane ends by itself. */
function openLane(pool: ResolvedSemaphore, request: ResolvedAcquire, use: (permit: Permit) => Promise<void>) {
  const waiting = new CancellationScope();
  let isLeft = false;
  const lane = async () => {
    let permit: Permit;
    try {
      permit = await waiting.run(() => acquirePermit(pool, request, { sinceMs: Date.now(), ofSet: true }));
    } catch (error) {
      if (isLeft && isCancellation(error)) return;
      throw error;
    }
    await withHeldPermit(permit, pool.renewEveryMs, use);
  };
  const leave = () => {
    isLeft = true;
    waiting.cancel();
  };
  return { done: lane(), leave };
}
