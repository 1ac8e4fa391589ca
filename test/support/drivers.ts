import assert from 'node:assert/strict';
import { AsyncLocalStorage } from 'node:async_hooks';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { Client, type Workflow, WorkflowFailedError, type WorkflowHandle } from '@temporalio/client';
import { ApplicationFailure, CancelledFailure } from '@temporalio/common';
import type { HoldInterval, ReportedHold } from '../../scripts/support/holder-intervals';
import { type ClientAcquireOptions, type ClientSetOptions, SemaphoreClient, withPermits } from '../../src/client';
import { startOptions, untilAt } from './holders';
import { assertSafe, type Temporal } from './temporal';
import type { HolderInput, PoolInput, SetInput } from './workflows';
import * as workflows from './workflows';

/** What a holder has. Of several permits, each field has all, with a blank between them. */
export interface Held {
  slot: string;
  runId: string;
}

/** How a caller ended: `done`, `cancelled`, or the name of its error, with that error's own fields. */
export interface Outcome {
  name: string;
  message: string;
  details: Record<string, unknown>;
}

/** A caller that asks for permits by `withPermit` or `withPermits`, and holds them until it is told to finish. */
export interface Caller {
  /** Waits until it holds; fails when it ends before. */
  holding(): Promise<Held>;
  /** Waits until its function is told to stop: its permit is lost, or it is cancelled. */
  stopped(): Promise<void>;
  /** Its function returns, now or as soon as it has begun. */
  finish(): Promise<void>;
  /** Cancels the Workflow, or aborts the signal of the client's acquire and of its function. */
  cancel(): Promise<void>;
  outcome(): Promise<Outcome>;
  /** Waits for its end, which must be `done`. */
  done(): Promise<void>;
  /** Whether this hold was its own. */
  readonly had: (hold: HoldInterval) => boolean;
}

/** One way to use a semaphore. What `Semaphore` and `SemaphoreClient` both promise is tested with each. */
export interface Driver {
  readonly name: 'in a Workflow' | 'in a client' | 'in a limited Workflow';
  readonly temporal: Temporal;
  /** Asks for one permit by `withPermit`. */
  start(input: HolderInput): Promise<Caller>;
  /** Asks for several permits of one resource by `withPermits`. */
  startMany(input: HolderInput, size: number): Promise<Caller>;
  /** Asks for permits of several resources by `withPermits`. */
  startSet(input: SetInput): Promise<Caller>;
  /** `tryAcquire` so many times: the slots that it got, `undefined` for none. They are free again afterwards. */
  tryAcquire(input: PoolInput, times: number): Promise<(string | undefined)[]>;
  /** What its callers have said of their holds, as far as no history tells. */
  readonly reports: readonly ReportedHold[];
  /** As the function of that name, with these reports. */
  assertSafe(resource: string, capacity: number): Promise<HoldInterval[]>;
  /** Ends all its callers, after a failure: what they have left would make the next one, and keep this process up. */
  abandon(): Promise<void>;
}

/** A driver for Workflows, and one for clients. */
export function drivers(temporal: Temporal): readonly [Driver, Driver] {
  return [new WorkflowDriver(temporal), new ClientDriver(temporal)];
}

/** Registers a case for each driver. Its name ends with that of the driver. */
export function contract(temporal: Temporal, name: string, body: (driver: Driver) => Promise<void>): void {
  register(drivers(temporal), name, body);
}

/** Registers a case also for Workflows that are limited, and know nothing of it. They take one permit each, and wait for it. */
export function contractOfAll(temporal: Temporal, name: string, body: (driver: Driver) => Promise<void>): void {
  register([...drivers(temporal), new WorkflowDriver(temporal, workflows.limitedHolder)], name, body);
}

function register(all: readonly Driver[], name: string, body: (driver: Driver) => Promise<void>): void {
  for (const driver of all)
    test(`${name}, ${driver.name}`, async () => {
      try {
        await body(driver);
      } catch (error) {
        await driver.abandon();
        throw error;
      }
    });
}

/** Starts a caller and waits until it holds. */
export async function startHolding(driver: Driver, input: HolderInput): Promise<{ caller: Caller } & Held> {
  const caller = await driver.start(input);
  return { caller, ...(await caller.holding()) };
}

/** Tells all to finish, and waits until they are done. */
export async function finishAll(callers: readonly Caller[]): Promise<void> {
  await Promise.all(callers.map((caller) => caller.finish()));
  await Promise.all(callers.map((caller) => caller.done()));
}

export async function assertEnds(caller: Caller, name: string, message: RegExp): Promise<Outcome> {
  const outcome = await caller.outcome();
  assert.equal(outcome.name, name, outcome.message);
  assert.match(outcome.message, message);
  return outcome;
}

const DONE: Outcome = { name: 'done', message: '', details: {} };

async function assertDone(caller: Caller): Promise<void> {
  const outcome = await caller.outcome();
  assert.deepEqual(outcome, DONE);
}

class WorkflowDriver implements Driver {
  readonly reports = [];
  private readonly callers: WorkflowCaller[] = [];

  constructor(
    readonly temporal: Temporal,
    private readonly holder: typeof workflows.holder = workflows.holder,
  ) {}

  get name() {
    return this.holder === workflows.holder ? 'in a Workflow' : 'in a limited Workflow';
  }

  start(input: HolderInput): Promise<Caller> {
    return this.startWorkflow(this.holder, [input]);
  }

  startMany(input: HolderInput, size: number): Promise<Caller> {
    return this.startWorkflow(workflows.manyHolder, [input, size]);
  }

  startSet(input: SetInput): Promise<Caller> {
    return this.startWorkflow(workflows.setHolder, [input]);
  }

  private async startWorkflow<T extends Workflow>(workflow: T, args: Parameters<T>): Promise<Caller> {
    const options = startOptions(this.temporal);
    const handle = await this.temporal.client.workflow.start<Workflow>(workflow, { ...options, args });
    const caller = new WorkflowCaller(handle);
    this.callers.push(caller);
    return caller;
  }

  async tryAcquire(input: PoolInput, times: number): Promise<(string | undefined)[]> {
    const options = startOptions(this.temporal, 'tryer');
    const slots = await this.temporal.client.workflow.execute(workflows.tryer, { ...options, args: [input, times] });
    return slots.map((slot) => slot ?? undefined); // JSON has no undefined
  }

  assertSafe(resource: string, capacity: number): Promise<HoldInterval[]> {
    return assertSafe(this.temporal.client, resource, capacity, []);
  }

  async abandon(): Promise<void> {
    await Promise.all(this.callers.map(({ handle }) => handle.terminate().catch(() => undefined)));
  }
}

class WorkflowCaller implements Caller {
  constructor(readonly handle: WorkflowHandle) {}

  async holding(): Promise<Held> {
    return await untilAt(this.handle, 'holding');
  }

  async stopped(): Promise<void> {
    await untilAt(this.handle, 'lost');
  }

  async finish(): Promise<void> {
    await this.handle.signal(workflows.finish);
  }

  async cancel(): Promise<void> {
    await this.handle.cancel();
  }

  async outcome(): Promise<Outcome> {
    try {
      await this.handle.result();
      return DONE;
    } catch (error) {
      if (!(error instanceof WorkflowFailedError)) throw error;
      const { cause } = error;
      if (cause instanceof CancelledFailure) return { ...DONE, name: 'cancelled' };
      if (!(cause instanceof ApplicationFailure)) throw error;
      return { name: cause.type ?? '', message: cause.message, details: details(cause.details?.[0] ?? {}) };
    }
  }

  done(): Promise<void> {
    return assertDone(this);
  }

  readonly had = ({ holder }: HoldInterval) => holder === this.handle.workflowId;
}

class ClientDriver implements Driver {
  readonly name = 'in a client';
  private readonly callers: ClientCaller[] = [];

  constructor(readonly temporal: Temporal) {}

  async start({ resource, semaphore, acquire, ...how }: HolderInput): Promise<Caller> {
    // To the queue, one identity is one waiter: if the machine is slow to use one turn, all its tickets come last.
    const identity = `client-${randomUUID()}`;
    return this.call(how, (hold, signal) =>
      this.semaphore({ resource, semaphore }, identity).withPermit((permit) => hold([permit], permit.signal), {
        ...(acquire as ClientAcquireOptions),
        signal,
      }),
    );
  }

  async startMany({ resource, semaphore, acquire, ...how }: HolderInput, size: number): Promise<Caller> {
    return this.call(how, (hold, signal) =>
      withPermits(
        [{ of: this.semaphore({ resource, semaphore }), permits: size }],
        ([permits], lost) => hold(permits, lost),
        { ...(acquire as ClientSetOptions), signal },
      ),
    );
  }

  async startSet({ pools, acquire, ...how }: SetInput): Promise<Caller> {
    return this.call(how, async (hold, signal) => {
      const entries = pools.map(({ permits, ...pool }) => ({ of: this.semaphore(pool), permits }));
      const options = { ...(acquire as ClientSetOptions), signal };
      await withPermits(entries, (each, lost) => hold(each.flat(), lost), options);
    });
  }

  private call(how: How, under: Under): Caller {
    const caller = new ClientCaller(how, under);
    this.callers.push(caller);
    return caller;
  }

  async tryAcquire(input: PoolInput, times: number): Promise<(string | undefined)[]> {
    const semaphore = this.semaphore(input);
    const permits = [];
    for (let time = 0; time < times; time++) permits.push(await semaphore.tryAcquire());
    await Promise.all(permits.map((permit) => permit?.release()));
    return permits.map((permit) => permit?.slot);
  }

  get reports(): ReportedHold[] {
    return this.callers.flatMap((caller) => caller.reports);
  }

  assertSafe(resource: string, capacity: number): Promise<HoldInterval[]> {
    return assertSafe(this.temporal.client, resource, capacity, this.reports);
  }

  async abandon(): Promise<void> {
    await Promise.all(this.callers.map((caller) => caller.cancel()));
    await Promise.all(this.callers.map((caller) => caller.outcome()));
  }

  private semaphore({ resource, semaphore }: PoolInput, identity?: string): SemaphoreClient {
    const { client: own, taskQueue } = this.temporal;
    const { connection, options } = own;
    const client = identity === undefined ? own : new Client({ connection, namespace: options.namespace, identity });
    return new SemaphoreClient(client, resource, { taskQueue, ...semaphore });
  }
}

/** How long it holds, and how its function ends. */
type How = Pick<HolderInput, 'holdMs' | 'ending'>;
type Hold = (permits: readonly Held[], lost: AbortSignal) => Promise<void>;
type Under = (hold: Hold, signal: AbortSignal) => Promise<void>;

/** Runs code as somebody new: a caller that asks inside the function of another would seem to wait for itself. */
const elsewhere = AsyncLocalStorage.snapshot();

class ClientCaller implements Caller {
  readonly reports: ReportedHold[] = [];
  private last: Held | undefined;
  private readonly finished = new AbortController();
  private readonly cancelled = new AbortController();
  private readonly ended: Promise<Outcome>;
  private readonly began = new AbortController();
  private readonly wasStopped = new AbortController();

  constructor(how: How, under: Under) {
    const hold: Hold = (permits, lost) => {
      if (how.ending === 'throw') throw asAsked();
      return this.hold(permits, lost, how);
    };
    const asked = elsewhere(async () => await under(hold, this.cancelled.signal));
    this.ended = asked.then(
      () => DONE,
      (error: Error) => {
        if (error === this.cancelled.signal.reason) return { ...DONE, name: 'cancelled' };
        return { name: error.name, message: error.message, details: details(error) };
      },
    );
  }

  private async hold(permits: readonly Held[], lost: AbortSignal, { holdMs, ending }: How): Promise<void> {
    const began = Date.now();
    const slot = permits.map(({ slot }) => slot).join(' ');
    const runId = permits.map(({ runId }) => runId).join(' ');
    this.last = { slot, runId };
    this.began.abort();
    const stop = AbortSignal.any([lost, this.cancelled.signal]);
    try {
      const signal = AbortSignal.any([stop, this.finished.signal]);
      if (holdMs === undefined) await aborted(signal);
      else if (holdMs > 0) await delay(holdMs, undefined, { signal: stop }).catch(() => undefined);
      if (stop.aborted) this.wasStopped.abort();
      stop.throwIfAborted();
    } finally {
      const toMs = Date.now();
      for (const { runId } of permits) this.reports.push({ runId, fromMs: began, toMs });
    }
    if (ending === 'fail') throw asAsked();
  }

  async holding(): Promise<Held> {
    await this.come(this.began.signal);
    return this.last ?? assert.fail();
  }

  async stopped(): Promise<void> {
    await this.come(this.wasStopped.signal);
  }

  private async come(to: AbortSignal): Promise<void> {
    const outcome = await Promise.race([aborted(to), this.ended]);
    if (outcome && !to.aborted) assert.fail(`it ended before: ${outcome.name} ${outcome.message}`);
  }

  async finish(): Promise<void> {
    this.finished.abort();
  }

  async cancel(): Promise<void> {
    this.cancelled.abort();
  }

  async outcome(): Promise<Outcome> {
    return await this.ended;
  }

  done(): Promise<void> {
    return assertDone(this);
  }

  readonly had = ({ runId }: HoldInterval) => this.reports.some((report) => report.runId === runId);
}

function asAsked(): Error {
  return Object.assign(new Error('as asked'), { name: 'AsAsked' });
}

async function aborted(signal: AbortSignal): Promise<void> {
  if (!signal.aborted) await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
}

const FIELDS = ['resource', 'slot', 'runId', 'how', 'reason', 'timeoutMs', 'maxWaiting', 'superseded'] as const;

/** The fields that errors of both drivers have. */
function details(error: object): Record<string, unknown> {
  const found = FIELDS.map((field) => [field, (error as Record<string, unknown>)[field]]);
  return Object.fromEntries(found.filter(([, value]) => value !== undefined));
}
