import { setMaxListeners } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import {
  ApplicationFailure,
  CancelledFailure,
  type Client,
  TerminatedFailure,
  WorkflowExecutionAlreadyStartedError,
  WorkflowFailedError,
} from '@temporalio/client';
import { messageOf } from '../../../scripts/support/main';
import { KEYS, type PoolSetup } from './actors/input';
import { preemption } from './actors/preemption';
import type { HolderInput, HolderResult } from './actors/workflows';
import { HOLDER_PREFIX } from './holder-prefix';
import type { Observer } from './observer';
import { Luck } from './random';
import type { Outcome } from './record';

const LANES = 6;
const LEASE_MS = 6_000;
const POLL_MS = 30_000;

interface LaneOptions {
  seed: string;
  pools: PoolSetup[];
  taskQueue: string;
  recheckAfterMs: number;
}

/** Holding Workflows, some at a time: each is started, and waited for. Every second one takes no permit itself: its type is limited. */
export class WorkflowLanes {
  /** Workflows that run, by ID, in the order of their start. */
  readonly running = new Set<string>();
  private isRetired = false;
  private readonly stopping = new AbortController();
  private count = 0;
  private readonly luck: Luck;
  private lanes: Promise<void>[] = [];

  constructor(
    private readonly client: Client,
    private readonly observer: Observer,
    private readonly options: LaneOptions,
  ) {
    this.luck = new Luck(`${options.seed}/workflows`);
    setMaxListeners(0, this.stopping.signal); // the SDK adds one for each request
  }

  start(): void {
    this.lanes = Array.from({ length: LANES }, (_, lane) => this.lane(lane));
  }

  retire(): void {
    this.isRetired = true;
  }

  /** Asks nobody any more, whatever is still under way. */
  async stop(): Promise<void> {
    this.retire();
    this.stopping.abort();
    await Promise.allSettled(this.lanes);
  }

  async terminate(workflowId: string, reason: string): Promise<void> {
    await this.client.workflow.getHandle(workflowId).terminate(reason);
  }

  private async lane(lane: number): Promise<void> {
    await delay(lane * 100);
    while (!this.isRetired) {
      await this.hold();
      await delay(this.luck.between(0, 300));
    }
  }

  private async hold(): Promise<void> {
    const { luck, options } = this;
    const pool = options.pools[luck.whole(0, options.pools.length - 1)] as PoolSetup;
    const { resource, slots, paceMs, perKey, fair } = pool;
    const key = luck.of(KEYS);
    const keyed = perKey === undefined ? {} : { key };
    const timeout = luck.chance(0.2) ? luck.whole(0, 10_000) : undefined;
    const workflowId = `${HOLDER_PREFIX}${resource}:${this.count++}`;
    const isCancelled = luck.chance(0.2);
    const input: HolderInput = {
      acquire: workflowId,
      resource,
      semaphore: {
        ...slots,
        lease: LEASE_MS,
        taskQueue: options.taskQueue,
        recheckAfter: options.recheckAfterMs,
        fair: luck.chance(0.3) || fair,
        perKey,
        ...(paceMs !== undefined && { pace: { every: paceMs } }),
      },
      options: { priority: { priorityKey: luck.whole(1, 3) }, timeout, ...keyed, ...preemption(luck, pool, timeout) },
      holdMs: luck.holdMs(LEASE_MS),
      ...(isCancelled && { cancelAt: { step: luck.whole(1, 8), after: luck.chance(0.5) } }),
    };
    const may = { mayTimeOut: timeout !== undefined, mayBeCancelled: isCancelled };
    this.observer.asked({ id: workflowId, resource, actor: 'application', ...may, ...keyed });
    this.running.add(workflowId);
    await this.persist(() => this.begin(workflowId, input));
    const { outcome, error } = await this.persist(() => this.outcome(workflowId));
    if (outcome === 'cancelled') this.observer.faults.push({ kind: 'acquire-cancelled', atMs: Date.now() });
    this.observer.settled(workflowId, outcome, error);
    this.running.delete(workflowId);
  }

  private async begin(workflowId: string, input: HolderInput): Promise<void> {
    try {
      const taskQueue = `${this.options.taskQueue}-application`;
      const type = this.running.size % 2 === 0 ? 'chaosHolder' : 'chaosLimited';
      await this.client.workflow.start(type, { workflowId, taskQueue, args: [input] });
    } catch (error) {
      if (!(error instanceof WorkflowExecutionAlreadyStartedError)) throw error; // an earlier try got through
    }
  }

  private async outcome(workflowId: string): Promise<{ outcome: Outcome; error?: string }> {
    const handle = this.client.workflow.getHandle<() => Promise<HolderResult>>(workflowId);
    try {
      const result = await this.client.withAbortSignal(this.stopping.signal, () =>
        this.client.withDeadline(Date.now() + POLL_MS, () => handle.result()),
      );
      return { outcome: result === 'held' || result === 'lost' ? 'granted' : result };
    } catch (error) {
      if (!(error instanceof WorkflowFailedError)) throw error;
      // One that was reset goes on in another run.
      if ((await handle.describe()).status.name === 'RUNNING') throw error;
      if (error.cause instanceof TerminatedFailure) return { outcome: 'killed' };
      if (error.cause instanceof CancelledFailure) return { outcome: 'cancelled' };
      const type = error.cause instanceof ApplicationFailure ? error.cause.type : undefined;
      if (type === 'PermitLostError') return { outcome: 'granted' };
      if (type === 'PermitTimeoutError') return { outcome: 'timeout' };
      return { outcome: 'failed', error: messageOf(error) };
    }
  }

  /** The server may be down. @throws once this stops */
  private async persist<T>(call: () => Promise<T>): Promise<T> {
    for (;;) {
      try {
        return await call();
      } catch {
        await delay(200, undefined, { signal: this.stopping.signal });
      }
    }
  }
}
