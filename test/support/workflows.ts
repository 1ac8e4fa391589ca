import {
  type ActivityCancellationType,
  ApplicationFailure,
  CancellationScope,
  condition,
  continueAsNew,
  defineQuery,
  executeChild,
  getExternalWorkflowHandle,
  isCancellation,
  makeContinueAsNewFunc,
  proxyActivities,
  setHandler,
  sleep,
  upsertMemo,
  uuid4,
  type WorkflowInterceptors,
  type WorkflowOutboundCallsInterceptor,
  workflowInfo,
} from '@temporalio/workflow';
import { BODY_MARKS } from '../../scripts/support/body-marks';
import { Semaphore } from '../../scripts/support/own-queue-semaphore';
import { currentPermit, FencingToken } from '../../src/fencing-workflow';
import { RELEASE } from '../../src/shared/protocol';
import { isSignalTarget, type SignalTarget } from '../../src/shared/wire-input';
import {
  type AcquireOptions,
  acquireAll,
  LineFullError,
  limitWorkflows,
  type Permit,
  PermitLostError,
  type PermitRef,
  PermitTimeoutError,
  type SemaphoreOptions,
  withPermits,
} from '../../src/workflow';
import { WorkflowQueuePlace } from '../../src/workflows/queue/queue-place';
import { adoptSignal, deliver, endedSignal, releaseSignal, revokeSignal } from '../../src/workflows/signals';
import { finish, finishes, marked, type PoolInput } from './finishing';
import { type Use, uses } from './uses';

export { exampleConsumer } from '../../scripts/support/example-workflow';
export * from '../../src/workflow';
export * from '../../src/workflows';
export * from './bill-workflows';
export * from './finishing';
export { fourCalls, oneCall } from './limited-workflows';
export * from './message-workflows';
export * from './misuse-workflows';
export * from './preemption-workflows';

export const stage = defineQuery<Stage>('stage');

export interface Stage {
  at: 'waiting' | 'holding' | 'lost' | 'done';
  slot?: string;
  runId?: string;
}

export interface HolderInput extends PoolInput {
  /** How long to hold, in milliseconds (server timers may be a second late); until the signal `finish` if not given. */
  holdMs?: number;
  /** `throw`: before the function has made a promise. */
  ending?: 'return' | 'fail' | 'throw' | 'continue-as-new';
  /** As of a `WorkflowLimit`. */
  patch?: boolean;
  /** A Workflow that may be limited is not. */
  unlimited?: boolean;
}

/** Holds a permit by `withPermit`, tells by query where it stands, and ends as asked. */
export async function holder({ resource, semaphore, acquire, holdMs, ending = 'return' }: HolderInput): Promise<Stage> {
  let now: Stage = { at: 'waiting' };
  const finished = finishes();
  setHandler(stage, () => now);
  return await new Semaphore(resource, semaphore).withPermit(async (permit) => {
    now = { at: 'holding', slot: permit.slot, runId: permit.runId };
    try {
      await marked(permit.runId, async () => {
        if (holdMs === undefined) await finished();
        else if (holdMs > 0) await sleep(holdMs);
      });
    } catch (error) {
      now = { ...now, at: 'lost' };
      throw error;
    }
    if (ending === 'fail') throw ApplicationFailure.nonRetryable('as asked', 'AsAsked');
    if (ending === 'continue-as-new') await continueAsNew<typeof holder>({ resource, semaphore, acquire, holdMs });
    now = { ...now, at: 'done' };
    return now;
  }, acquire);
}

/** Holds a permit while it waits for its child, which wants one of the same resource. */
export async function parentOfHolder(input: HolderInput): Promise<void> {
  await new Semaphore(input.resource, input.semaphore).withPermit(async () => {
    await executeChild(holder, { args: [input], workflowId: `child-of-${workflowInfo().workflowId}` });
  });
}

/** A {@link holder} that knows nothing of permits: its type is limited, as its input says. */
export async function limitedHolder(input: HolderInput): Promise<Stage> {
  const { holdMs, ending = 'return' } = input;
  const permit = currentPermit();
  let now: Stage = { at: 'holding', slot: permit?.slot, runId: permit?.runId };
  const finished = finishes();
  setHandler(stage, () => now);
  try {
    await marked(permit?.runId ?? '', async () => {
      if (holdMs === undefined) await finished();
      else if (holdMs > 0) await sleep(holdMs);
    });
  } catch (error) {
    now = { ...now, at: 'lost' };
    throw error;
  }
  if (ending === 'fail') throw ApplicationFailure.nonRetryable('as asked', 'AsAsked');
  if (ending === 'continue-as-new') await continueAsNew<typeof limitedHolder>({ ...input, ending: 'return' });
  return { ...now, at: 'done' };
}

/** Does nothing, under a limit. */
export async function limitedNothing(_: HolderInput): Promise<void> {}

const SLOW: readonly string[] = ['slowHolder', 'slowSetHolder'];
const LIMITED: readonly string[] = ['limitedHolder', 'limitedNothing', 'limitedLedger', 'limitedDesk', 'limitedBill'];

/** A release takes longer than a lease of four seconds. */
const afterTheLease: WorkflowOutboundCallsInterceptor['signalWorkflow'] = async (input, next) => {
  if (input.signalName === RELEASE) await sleep(6_000);
  return await next(input);
};

/** A {@link holder} whose release comes late. */
export async function slowHolder(input: HolderInput): Promise<Stage> {
  return await holder(input);
}

/** A {@link setHolder} whose releases come late. */
export async function slowSetHolder(input: SetInput): Promise<unknown> {
  return await setHolder(input);
}

/** The limit of each of these is that of its input. An application's limits stand in a file. */
export function interceptors(): WorkflowInterceptors {
  const { workflowType } = workflowInfo();
  if (SLOW.includes(workflowType)) return { outbound: [{ signalWorkflow: afterTheLease }] };
  if (!LIMITED.includes(workflowType)) return {};
  let made: WorkflowInterceptors;
  return {
    inbound: [
      {
        execute: async (input, next) => {
          const [{ resource, semaphore, acquire = {}, patch, unlimited }] = input.args as [HolderInput];
          const { key, priority: _priority, ...rest } = acquire;
          if (unlimited) return await next(input);
          const priority = (it: HolderInput) => it.acquire?.priority;
          const limit = { semaphore: new Semaphore(resource, semaphore), patch, priority, ...rest };
          made = limitWorkflows({ [workflowType]: key === undefined ? limit : { ...limit, key: () => key } })();
          return await (made.inbound?.[0]?.execute ?? ((given, run) => run(given)))(input, next);
        },
      },
    ],
    outbound: [{ continueAsNew: (input, next) => made.outbound?.[0]?.continueAsNew?.(input, next) ?? next(input) }],
  };
}

/** Does one of the {@link uses}, and tells by query what it holds. */
export async function user(use: Use, { resource, semaphore }: PoolInput, ref?: PermitRef): Promise<unknown> {
  let now: Stage = { at: 'waiting' };
  const finished = finishes();
  setHandler(stage, () => now);
  const pool = new Semaphore(resource, semaphore);
  return await uses[use]({
    pool,
    ref,
    outliving: { outlivesRun: true } as object,
    together: (fn, options) => withPermits([pool], (permits) => fn(permits), options),
    all: (options) => acquireAll([pool], options),
    at: ({ slot, runId }) => {
      now = { at: 'holding', slot, runId };
    },
    finished,
    sleep: (ms) => sleep(ms),
    token: () => String(FencingToken.from(currentPermit() ?? { resource: 'none', slot: '', runId: '' })),
    lost: (permit) => (permit as Permit).lost,
  });
}

/** Holds one permit through all of its runs, as the page of `Semaphore.withPermit` shows it. Tells the fencing token of the last. */
export async function epochs({ resource, semaphore }: PoolInput, left: number, held?: PermitRef): Promise<string> {
  const work = async (permit: Permit): Promise<string> => {
    if (left > 1) await continueAsNew<typeof epochs>({ resource, semaphore }, left - 1, permit.detach());
    return permit.runId;
  };
  return await new Semaphore(resource, semaphore).withPermit(work, { adopt: held, outlivesRun: true });
}

/** Asks so many times for what it holds. */
export async function again({ resource, semaphore }: PoolInput, times: number): Promise<void> {
  const pool = new Semaphore(resource, semaphore);
  await pool.withPermit(async () => {
    for (let n = 0; n < times; n++) await pool.withPermit(async () => undefined);
  });
}

/** Its function is one activity, on another task queue. */
export async function activityHolder(
  { resource, semaphore }: PoolInput,
  taskQueue: string,
  cancellationType: ActivityCancellationType,
): Promise<void> {
  const { work } = proxyActivities<{ work(): Promise<void> }>({
    taskQueue,
    startToCloseTimeout: '1 minute',
    heartbeatTimeout: '1s',
    cancellationType,
    retry: { maximumAttempts: 1 },
  });
  await new Semaphore(resource, semaphore).withPermit(() => work());
}

/** Its function is through in the fewest steps after it may finish. */
export async function directHolder({ resource, semaphore, acquire }: PoolInput): Promise<string> {
  let now: Stage = { at: 'waiting' };
  const finished = finishes();
  setHandler(stage, () => now);
  await new Semaphore(resource, semaphore).withPermit((permit) => {
    now = { at: 'holding', slot: permit.slot, runId: permit.runId };
    return finished();
  }, acquire);
  return 'held to its end';
}

/** Its permit is revoked while its function is being through, so that it hears of the end only afterwards. */
export async function lateLoser({ resource, semaphore, acquire }: PoolInput): Promise<string> {
  let now: Stage = { at: 'waiting' };
  const finished = finishes();
  setHandler(stage, () => now);
  await new Semaphore(resource, semaphore).withPermit(async (permit) => {
    now = { at: 'holding', slot: permit.slot, runId: permit.runId };
    await finished();
    await getExternalWorkflowHandle(permit.workflowId, permit.runId).signal(revokeSignal, { reason: 'for another' });
  }, acquire);
  return 'held to its end';
}

/** Gives what it was given: what a stranger's Workflow in the place of a permit may end with. */
export async function echo(result: unknown): Promise<unknown> {
  return result;
}

/** Takes a permit by `acquire` and never releases it: continues as new when told to finish. */
export async function bareHolder({ resource, semaphore, acquire }: PoolInput, again = true): Promise<Stage> {
  const finished = finishes();
  const permit = await new Semaphore(resource, semaphore).acquire(acquire);
  const now: Stage = { at: 'holding', slot: permit.slot, runId: permit.runId };
  setHandler(stage, () => now);
  await finished();
  if (again) await continueAsNew<typeof bareHolder>({ resource, semaphore, acquire }, false);
  await permit.release();
  return now;
}

/** Loses its permit, lets somebody else take the slot, and only then releases: what a paused holder does. */
export async function lateHolder({ resource, semaphore }: PoolInput): Promise<string> {
  const finished = finishes();
  const permit = await new Semaphore(resource, semaphore).acquire();
  const now: Stage = { at: 'holding', slot: permit.slot, runId: permit.runId };
  setHandler(stage, () => now);
  const lost = await permit.lost;
  await finished();
  for (const goOn of [() => permit.renew(), () => permit.checkpoint(), () => permit.yield(async () => undefined)]) {
    const error = await goOn().catch((error: unknown) => error);
    if (!(error instanceof PermitLostError)) throw ApplicationFailure.nonRetryable(`${goOn} went on after the loss`);
  }
  await permit.release();
  await permit.release();
  return lost.how;
}

/** Cancels an acquire in the very moment in which its claim is on its way. */
export async function cancelledClaimer({ resource, semaphore }: PoolInput): Promise<string> {
  const scope = new CancellationScope();
  const acquiring = scope.run(async () => await new Semaphore(resource, semaphore).acquire());
  await Promise.resolve(); // the claim's command is out
  scope.cancel();
  return await acquiring.then(
    () => 'acquired',
    (error) => (isCancellation(error) ? 'cancelled' : String(error)),
  );
}

/** `tryAcquire` for as many permits as asked, and says which slots it got. */
export async function tryer({ resource, semaphore }: PoolInput, times: number): Promise<(string | undefined)[]> {
  const pool = new Semaphore(resource, semaphore);
  const permits = [];
  for (let time = 0; time < times; time++) permits.push(await pool.tryAcquire());
  await Promise.all(permits.map(async (permit) => await permit?.release()));
  return permits.map((permit) => permit?.slot);
}

/** Holds by `await using`, and says whether the slot is free right after the block. */
export async function disposer({ resource, semaphore }: PoolInput): Promise<boolean> {
  const pool = new Semaphore(resource, semaphore);
  {
    await using permit = await pool.acquire();
    if (await pool.tryAcquire()) throw ApplicationFailure.nonRetryable(`slot ${permit.slot} was held twice`);
  }
  const again = await pool.tryAcquire();
  await again?.release();
  return again !== undefined;
}

/** Waits in two queues, or twice in one, at the same time. */
export async function doubleHolder(first: PoolInput, second: PoolInput): Promise<string[]> {
  return await Promise.all(
    [first, second].map(async ({ resource, semaphore }) =>
      new Semaphore(resource, semaphore).withPermit(async (permit) => permit.slot),
    ),
  );
}

/** Holds each of these slots until it is told to finish. */
export async function holdEach({ resource, semaphore }: PoolInput): Promise<void> {
  const finished = finishes();
  await Promise.all(
    (semaphore.slots ?? []).map((slot) =>
      new Semaphore(resource, { ...semaphore, slots: [slot] }).withPermit(finished),
    ),
  );
}

/** Waits for so many permits at once, and gives each back when it has it. */
export async function crowd({ resource, semaphore, acquire }: PoolInput, size: number): Promise<void> {
  const pool = new Semaphore(resource, semaphore);
  await Promise.all(Array.from({ length: size }, () => pool.withPermit(async () => undefined, acquire)));
}

/** Holds a permit twice, one after the other. */
export async function twice({ resource, semaphore, acquire }: PoolInput, holdMs: number): Promise<void> {
  const pool = new Semaphore(resource, semaphore);
  for (let nth = 1; nth <= 2; nth++) await pool.withPermit(() => sleep(holdMs), acquire);
}

/** Does nothing but make a semaphore, for bad options. */
export async function maker({ resource, semaphore, acquire }: PoolInput): Promise<void> {
  await new Semaphore(resource, semaphore).withPermit(async () => undefined, acquire);
}

/** Has its turn, and leaves the line without a claim: what a caller does that is cancelled between the two. */
export async function offerLeaver(resource: string): Promise<string> {
  const { workflowId, runId } = workflowInfo();
  const ticket = { id: uuid4(), waiter: { workflowId, runId }, slots: 1, sinceMs: Date.now() };
  const place = new WorkflowQueuePlace(resource, ticket, undefined);
  await place.enter();
  const word = await place.next(60_000);
  await place.leave();
  return typeof word === 'object' ? word.slot : String(word);
}

/** Acquires a permit in its first run, and hands it on until it has had as many runs as asked. Tells each run's fencing token. */
export async function relay({ resource, semaphore }: PoolInput, runs: number, held?: PermitRef): Promise<string> {
  const pool = new Semaphore(resource, semaphore);
  const permit = held ? await pool.adopt(held) : await pool.acquire({ outlivesRun: true });
  if (runs > 1) await continueAsNew<typeof relay>({ resource, semaphore }, runs - 1, permit.ref());
  const { runId } = permit;
  await permit.release();
  return runId;
}

/** As {@link relay}, out of `withPermit`, which would release it; the next run is an {@link adopter}. */
export async function relayInside(
  { resource, semaphore }: PoolInput,
  held?: PermitRef,
  renewEvery?: number,
): Promise<Stage> {
  if (held) return await adopter(held, renewEvery);
  return await new Semaphore(resource, semaphore).withPermit(
    async (permit) => await continueAsNew<typeof relayInside>({ resource, semaphore }, permit.detach(), renewEvery),
    { outlivesRun: true },
  );
}

/** Holds a permit that was acquired elsewhere, and tells by query where it stands. */
export async function adopter(ref: PermitRef, renewEvery?: number): Promise<Stage> {
  let now: Stage = { at: 'waiting' };
  const finished = finishes();
  setHandler(stage, () => now);
  return await new Semaphore(ref.resource, { capacity: 1, renewEvery }).withPermit(
    async (permit) => {
      now = { at: 'holding', slot: permit.slot, runId: permit.runId };
      await finished();
      return { ...now, at: 'done' };
    },
    { adopt: ref },
  );
}

/** A permit whose end takes long after it has told its adopter of it. */
export async function slowlyEndingPermit(): Promise<void> {
  let adopter: SignalTarget | undefined;
  let isReleased = false;
  setHandler(adoptSignal, ({ holder }) => {
    if (isSignalTarget(holder)) adopter = holder;
  });
  setHandler(releaseSignal, () => {
    isReleased = true;
  });
  await condition(() => isReleased);
  const { workflowId, runId } = workflowInfo();
  if (adopter) await deliver(adopter, endedSignal, { workflowId, runId, outcome: 'released' });
  await sleep(1_000);
}

/** Adopts a permit and releases it. Whether its slot is free then. */
export async function adoptAndRelease(ref: PermitRef): Promise<boolean> {
  const semaphore = new Semaphore(ref.resource, { capacity: 1 });
  const permit = await semaphore.adopt(ref);
  await permit.release();
  const next = await semaphore.tryAcquire();
  await next?.release();
  return next !== undefined;
}

/** Acquires a permit that can outlive it, and ends with it. */
export async function leaver({ resource, semaphore }: PoolInput): Promise<PermitRef> {
  return (await new Semaphore(resource, semaphore).acquire({ outlivesRun: true })).detach();
}

/** Hands its permit over at once, and goes on inside `withPermit` until it is told to finish. */
export async function busyLeaver({ resource, semaphore }: PoolInput): Promise<void> {
  const finished = finishes();
  const detach = async (permit: Permit) => {
    permit.detach();
    await finished();
  };
  await new Semaphore(resource, semaphore).withPermit(detach, { outlivesRun: true });
}

/** Hands its permit over out of `withPermit`, which waiters of higher priority could have taken. */
export async function preemptibleLeaver({ resource, semaphore }: PoolInput): Promise<PermitRef> {
  return await new Semaphore(resource, semaphore).withPermit(async (permit) => permit.detach(), {
    outlivesRun: true,
    preemptible: { grace: '1s' },
    priority: { priorityKey: 4 },
  });
}

/** Asks for a reference to a permit that ends with this run. */
export async function noLeaver({ resource, semaphore }: PoolInput): Promise<PermitRef> {
  return (await new Semaphore(resource, semaphore).acquire()).ref();
}

/** Sleeps, and when it is told to finish, returns for how long by the Workflow's clock. */
export async function sleeper(ms: number): Promise<number> {
  const startedMs = Date.now();
  const finished = finishes();
  setHandler(stage, () => ({ at: 'waiting' }) as Stage);
  await sleep(ms);
  const sleptMs = Date.now() - startedMs;
  await finished();
  return sleptMs;
}

/** Its code never ends, in a scope of its own. */
export async function spinner(): Promise<void> {
  await CancellationScope.cancellable(async () => {
    for (;;);
  });
}

/** Runs in the place of a wait queue or a permit, and answers its query with anything. */
export async function impostor(query: string, answer: unknown): Promise<void> {
  setHandler(defineQuery(query), () => answer);
  await finishes()();
}

export interface SetInput {
  pools: { resource: string; semaphore: SemaphoreOptions; permits?: number }[];
  acquire?: AcquireOptions;
  /** As a holder's. */
  holdMs?: number;
}

/** Holds permits of several resources by `withPermits`, and tells by query where it stands. */
export async function setHolder({ pools, acquire, holdMs }: SetInput): Promise<{ resource: string; slot: string }[]> {
  let now: Stage = { at: 'waiting' };
  const finished = finishes();
  setHandler(stage, () => now);
  const entries = pools.map(({ resource, semaphore, permits }) => ({
    of: new Semaphore(resource, semaphore),
    permits,
  }));
  return await withPermits(
    entries,
    async (each) => {
      const permits = each.flat();
      const slots = permits.map(({ slot }) => slot).join(' ');
      now = { at: 'holding', slot: slots, runId: permits.map(({ runId }) => runId).join(' ') };
      for (const { runId } of permits) upsertMemo({ [BODY_MARKS.began(runId)]: true });
      try {
        if (holdMs === undefined) await finished();
        else if (holdMs > 0) await sleep(holdMs);
      } finally {
        for (const { runId } of permits) upsertMemo({ [BODY_MARKS.ended(runId)]: true });
      }
      return permits.map(({ resource, slot }) => ({ resource, slot }));
    },
    acquire,
  );
}

/** As {@link setHolder}, by hand: one `withPermit` inside the other, in the order given. It asks for each next one when told so. */
export async function nester({ pools, holdMs = 0 }: SetInput): Promise<void> {
  let now: Stage = { at: 'waiting' };
  const told = finishes();
  setHandler(stage, () => now);
  const nest = async ([pool, ...rest]: SetInput['pools']): Promise<void> => {
    if (!pool) return await sleep(holdMs);
    await new Semaphore(pool.resource, pool.semaphore).withPermit(async () => {
      now = { at: 'holding' };
      if (rest.length > 0) await told();
      await nest(rest);
    });
  };
  await nest(pools);
}

/** Acquires all, and gives them back: by `await using`. Says which slots of which resources were free right after the block. */
export async function setDisposer({ pools }: SetInput): Promise<boolean[]> {
  const entries = pools.map(({ resource, semaphore }) => new Semaphore(resource, semaphore));
  {
    await using set = await acquireAll(entries);
    await set.renew();
  }
  const again = await Promise.all(entries.map((entry) => entry.tryAcquire()));
  await Promise.all(again.map((permit) => permit?.release()));
  return again.map((permit) => permit !== undefined);
}

/** Holds a permit for a key, by `withPermit`. */
export async function keyHolder({ resource, semaphore, acquire, holdMs = 0 }: HolderInput): Promise<string> {
  return await new Semaphore(resource, semaphore).withPermit(async ({ resource, runId }) => {
    await marked(runId, async () => await sleep(Math.max(1, holdMs)));
    return resource;
  }, acquire);
}

/**
 * Inside permits of its pool, as many as `depth`, asks for one more: by itself, as one of a set, and in a signal handler, which
 * stands outside. Says what came of each.
 */
export async function reentrant(
  { resource, semaphore, acquire }: PoolInput,
  depth: number,
  other: string,
): Promise<string[]> {
  const pool = new Semaphore(resource, semaphore);
  const outcome = (asked: Promise<unknown>) =>
    asked.then(
      () => 'acquired',
      (error: Error) => (error instanceof PermitTimeoutError ? error.message : error.name),
    );
  let handled: Promise<string> | undefined;
  setHandler(finish, () => {
    handled = outcome(pool.withPermit(async () => undefined));
  });
  const nest = async (left: number): Promise<string[]> => {
    if (left > 0) return await pool.withPermit(async () => await nest(left - 1));
    const inside = [
      await outcome(pool.withPermit(async () => undefined)),
      await outcome(withPermits([pool, new Semaphore(other, { capacity: 1 })], async () => undefined)),
      await outcome(pool.withPermit(async () => undefined, acquire)),
    ];
    await condition(() => handled !== undefined);
    return inside;
  };
  const inside = await nest(depth);
  return [...inside, (await handled) ?? 'none'];
}

/** Holds several permits of one resource by `withPermits`, and tells by query where it stands. */
export async function manyHolder(
  { resource, semaphore, acquire, holdMs, ending }: HolderInput,
  size: number,
): Promise<string[]> {
  let now: Stage = { at: 'waiting' };
  const finished = finishes();
  setHandler(stage, () => now);
  const fail = () => {
    throw ApplicationFailure.nonRetryable('as asked', 'AsAsked');
  };
  return await withPermits(
    [{ of: new Semaphore(resource, semaphore), permits: size }],
    ending === 'throw'
      ? fail
      : async ([permits]) => {
          now = {
            at: 'holding',
            slot: permits.map(({ slot }) => slot).join(' '),
            runId: permits.map(({ runId }) => runId).join(' '),
          };
          for (const { runId } of permits) upsertMemo({ [BODY_MARKS.began(runId)]: true });
          try {
            if (holdMs === undefined) await finished();
            else if (holdMs > 0) await sleep(holdMs);
          } finally {
            for (const { runId } of permits) upsertMemo({ [BODY_MARKS.ended(runId)]: true });
          }
          return permits.map(({ slot }) => slot);
        },
    acquire,
  );
}

/** Has its pool paused until then: while it holds a permit of it, or as one who has nothing to do with it. */
export async function pauser({ resource, semaphore }: PoolInput, untilMs: number, holds = true): Promise<void> {
  const pool = new Semaphore(resource, semaphore);
  const pause = async () => await pool.pauseUntil(new Date(untilMs), { reason: '429' });
  await (holds ? pool.withPermit(pause) : pause());
}

/** Works without a permit where none is free: says under which slot it worked, `none` without a permit. */
export async function inline({ resource, semaphore }: PoolInput): Promise<string> {
  const permit = await new Semaphore(resource, semaphore).tryAcquire();
  try {
    return permit ? permit.slot : 'none';
  } finally {
    await permit?.release();
  }
}

/** Works without a permit where the line is full: says under which slot it worked, `none` without a permit. */
export async function governed({ resource, semaphore, acquire }: PoolInput): Promise<string> {
  const work = async (permit?: Permit) => permit?.slot ?? 'none';
  return await new Semaphore(resource, semaphore).withPermit(work, acquire).catch((error: unknown) => {
    if (!(error instanceof LineFullError)) throw error;
    return work();
  });
}

/** Renews for that long. @returns when the lease ends then, from before its claim on */
export async function longRenewer({ resource, semaphore }: PoolInput, lease: number): Promise<number> {
  const fromMs = Date.now();
  const permit = await new Semaphore(resource, semaphore).acquire();
  const deadline = await permit.renew(lease);
  await permit.release();
  return deadline.getTime() - fromMs;
}

/** Renews once for another duration, then is silent for longer than its lease, and says how it stands with its permit. */
export async function silentHolder(
  { resource, semaphore }: PoolInput,
  lease: number,
  silentMs: number,
): Promise<string> {
  const permit = await new Semaphore(resource, semaphore).acquire();
  await permit.renew(lease);
  await sleep(silentMs);
  try {
    await permit.renew();
    await permit.release();
    return 'held';
  } catch (error) {
    return error instanceof PermitLostError ? error.how : String(error);
  }
}

/**
 * A permit as Temporal's own Python pattern (temporal-workflow-throttler) has it: the same ID and the same `release`, a lease that
 * nobody renews, no holder, and no answer to a queue.
 */
export async function PermitSlotWorkflow({ lease_seconds }: { lease_seconds: number }): Promise<string> {
  let released = false;
  setHandler(releaseSignal, () => {
    released = true;
  });
  return (await condition(() => released, lease_seconds * 1_000)) ? 'released' : 'lease_expired';
}

/** Somebody else's Workflow that goes on as one of ours, with any argument: no cron schedule and no retry tells. */
export async function continuesAs(workflowType: string, input: unknown): Promise<never> {
  return await makeContinueAsNewFunc<(input: unknown) => Promise<never>>({ workflowType })(input);
}
