import { randomUUID } from 'node:crypto';
import type { Client, WorkflowClient } from '@temporalio/client';
import type { ResolvedAcquire } from '../../shared/options';
import { shuffle } from '../../shared/shuffle';
import { monotonicMs } from '../clock';
import type { Circumstances } from '../errors';
import { clientAcquirer } from '../holder/acquirer';
import { claimSlot } from '../holder/claim';
import type { Permit } from '../holder/permit';
import type { ClientMetrics } from '../metrics';
import { type Request, thisMoment } from '../options';
import { Pollers } from '../pollers';
import { Server } from '../server';
import type { Place } from './growth';
import { lookAtQueue, openQueryClient } from './queue-look';
import type { Others } from './turnover';

/** How many slots more than it needs a pool tries before it lines up. Each is one call. */
const SPARE_TRIES = 2;

/** How long a try may wait for the server to answer. */
const TRY_MS = 10_000;

/** The caller for whom a pool asks: operators see its purpose, and the queue heeds its priority. */
type Asking = Pick<ResolvedAcquire, 'purpose' | 'priority'>;

interface Try {
  count: number;
  everySlot: boolean;
  /** Slots that the pool holds already. */
  without: ReadonlySet<string>;
}

/** Where a permit pool gets its permits: the calls to the server, and nothing that decides when. */
export class PermitSource {
  /** Tells this pool's tickets from those of others. */
  readonly poolId = randomUUID();
  /** Its calls are this pool's alone. */
  private readonly server: Server;
  private readonly reader: WorkflowClient;
  private readonly pollers: Pollers;

  constructor(
    client: Client,
    readonly semaphore: Request['semaphore'],
    readonly metrics: ClientMetrics,
  ) {
    this.server = new Server(client);
    this.reader = openQueryClient(client);
    this.pollers = new Pollers(this.server, semaphore.taskQueue);
  }

  /** Tries slots, side by side, and hands on each permit as it comes. In strict order it does so only where nobody waits. */
  async try(
    { count, everySlot, without }: Try,
    asking: Asking,
    signal: AbortSignal,
    take: (permit: Permit) => void,
  ): Promise<void> {
    const { slots, fair } = this.semaphore;
    if (fair && !everySlot && (await this.look())?.tickets.length !== 0) return;
    const free = shuffle(slots, Math.random).filter((slot) => !without.has(slot));
    const tried = everySlot ? free : free.slice(0, count + SPARE_TRIES);
    const request = this.request(asking, 1, signal);
    const untilMs = monotonicMs() + TRY_MS;
    const tryOn = async () => {
      for (let slot = tried.shift(); slot !== undefined && !signal.aborted; slot = tried.shift()) {
        const claim = { slot, request, untilMs };
        const permit = await this.metrics.acquire(this.semaphore.resource, signal, () => claimSlot(this.server, claim));
        if (permit) return take(permit);
      }
    };
    const ends = await Promise.allSettled(Array.from({ length: count }, tryOn));
    for (const end of ends) if (end.status === 'rejected') throw end.reason;
  }

  /** Lines up, and waits for its turn. */
  async lineUp({ nth }: Place, asking: Asking, signal: AbortSignal): Promise<Permit | undefined> {
    const request = this.request(asking, nth, signal);
    const never = { deadlineMs: Number.POSITIVE_INFINITY, firstTries: 0, triesBeforeJoin: 0 };
    const acquirer = clientAcquirer(this.server, request, { ...never, metrics: this.metrics });
    return await this.metrics.acquire(this.semaphore.resource, signal, () => acquirer.acquire());
  }

  /** Sees which others wait; `undefined` when no worker answers. */
  async look(): Promise<Others | undefined> {
    const { resource } = this.semaphore;
    return await lookAtQueue(this.server, this.reader, { resource, poolId: this.poolId });
  }

  /** Why it may have had no permit. */
  async circumstances(): Promise<Circumstances> {
    return await this.pollers.circumstances();
  }

  /** Warns the process when nobody is there to serve those who wait. */
  async warn(served: AbortSignal): Promise<void> {
    await this.pollers.warn(served);
  }

  /** Resolves when no call is under way. */
  async ended(): Promise<void> {
    await this.server.ended();
  }

  private request({ purpose, priority }: Asking, nth: number, signal: AbortSignal): Request {
    const { semaphore } = this;
    const pool = { id: this.poolId, nth };
    const timeoutMs = Number.POSITIVE_INFINITY;
    return {
      semaphore,
      purpose,
      priority,
      signal,
      since: thisMoment(),
      pool,
      timeoutMs,
      maxWaiting: undefined,
      attempts: undefined,
      outlivesRun: false,
      key: undefined,
      permits: 1,
      preempt: false,
      preemptible: undefined,
    };
  }
}
