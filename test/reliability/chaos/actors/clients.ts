import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { Client, type Connection, type WorkflowClientInterceptor } from '@temporalio/client';
import { type Permit, PermitLostError, PermitPool, PermitTimeoutError, SemaphoreClient, withPermits } from '@/client';
import { isTransient } from '@/client/server/grpc-errors';
import { FencingToken } from '@/fencing';
import { PERMIT_WORKFLOW, type PermitInput } from '@/shared/protocol';
import type { ObserverLink } from '../observer-link';
import { Luck } from '../random';
import type { Outcome } from '../record';
import { WRITE_EVERY_MS } from './application';
import { type ActorInput, KEYS, type PoolSetup } from './input';
import { preemption } from './preemption';
import { FLAKY, signalFault } from './signal-faults';

const LEASE_MS = 4_000;

/** So many of a lane's acquires are of several permits. */
const SETS = 0.2;

type HeldPermit = Pick<Permit, 'resource' | 'slot' | 'runId'>;

/** Several holders outside Workflows, in one process: each acquires, works and releases, again and again. */
export class ClientHolders {
  private stopping = false;
  /** The next to have its turn dies of it. */
  private armed = false;
  private count = 0;
  /** Tells this process from those before it. A process ID comes again within the hour. */
  private readonly life = randomUUID().slice(0, 8);
  private readonly luck: Luck;
  /** By their resources, two of each. Permits with a pace or a key are not reused. */
  private readonly permitPools: Map<string, PermitPool[]>;

  constructor(
    private readonly input: ActorInput,
    private readonly connection: Connection,
    private readonly link: ObserverLink,
  ) {
    this.luck = new Luck(`${input.seed}/${input.name}`);
    const reused = input.pools.filter(({ paceMs }) => paceMs === undefined);
    this.permitPools = new Map(
      reused.map((pool) => [
        pool.resource,
        [1, 2].map(() => new PermitPool(this.semaphore(pool, this.client(this.interceptor())), { reuseFor: 1_000 })),
      ]),
    );
  }

  stop(): void {
    this.stopping = true;
  }

  killOnTurn(): void {
    this.armed = true;
  }

  async run(): Promise<void> {
    const lanes = Array.from({ length: this.input.holders }, (_, lane) => this.lane(lane));
    await Promise.all([...lanes, this.busyLane(), this.setLane(), this.setLane()]);
    await Promise.all([...this.permitPools.values()].flat().map((pool) => pool.close()));
  }

  private async lane(lane: number): Promise<void> {
    await delay(lane * 200);
    while (!this.stopping) {
      await this.acquire(this.luck.of(this.input.pools), this.luck.next());
      await delay(this.luck.between(0, 300));
    }
  }

  /** Sets, one after the other, most of them of two permits. All lanes want the same, and none overtakes another by its priority. */
  private async setLane(): Promise<void> {
    const { luck } = this;
    const [pool] = this.input.pools as [PoolSetup];
    while (!this.stopping) {
      await this.acquire(pool, luck.between(SETS * 0.4, SETS), { priorityKey: 2, holdMs: 200 });
      await delay(luck.between(0, 300));
    }
  }

  /** Calls of one permit pool, one after the other without a pause. */
  private async busyLane(): Promise<void> {
    const { link } = this;
    const { name: actor, pools } = this.input;
    const [first] = pools as [PoolSetup];
    const { resource } = first;
    const pool = new PermitPool(this.semaphore(first, this.client(this.interceptor())), {
      max: 1,
      reuseFor: 1_000,
    });
    const priority = { priorityKey: 3 };
    while (!this.stopping) {
      const acquire = this.nextName();
      await link.tell({ do: 'ask', acquire, resource, actor, pooled: true, givesWay: true });
      try {
        await pool.withPermit((permit) => this.work(acquire, [permit], permit.signal, 300), { priority });
      } catch (error) {
        if (error instanceof PermitLostError) continue;
        await link.tell({ do: 'settle', acquire, outcome: outcomeOf(error), error: String(error) });
      }
    }
    await pool.close();
  }

  /** @param way how: below {@link SETS}, several permits; below 0.4, by a permit pool; alone */
  private async acquire(
    pool: PoolSetup,
    way: number,
    fixed: { priorityKey?: number; holdMs?: number } = {},
  ): Promise<void> {
    const acquire = this.nextName();
    const { luck, link } = this;
    const { name: actor, pools } = this.input;
    const aborter = new AbortController();
    const cancelAt = luck.chance(0.15)
      ? luck.of([1, 2, 3, 4, 5, 6, ...(['turn', 'turn', 'turn'] as const)])
      : undefined;
    const timeout = luck.chance(0.2) ? luck.whole(0, 10_000) : undefined;
    const options = {
      timeout,
      priority: { priorityKey: fixed.priorityKey ?? luck.whole(1, 3) },
      signal: aborter.signal,
    };
    const client = this.client(this.interceptor(aborter, cancelAt));
    const permitPool = this.permitPools.get(pool.resource)?.[luck.whole(0, 1)];
    const key = luck.of(KEYS);
    const asked = { actor, mayTimeOut: timeout !== undefined, mayBeCancelled: cancelAt !== undefined };
    try {
      if (way < SETS / 2) {
        // A set waits for its resources in the order of their names.
        const [first, ...others] = [...pools].sort((a, b) => (a.resource < b.resource ? -1 : 1)) as [PoolSetup];
        await link.tell({ do: 'ask', acquire, resource: first.resource, ...asked, set: acquire });
        const all = luck.shuffled([first, ...others]).map((each) => ({
          of: this.semaphore(each, client),
          ...(each.perKey !== undefined && { key }),
        }));
        await withPermits(
          all,
          async (permits, signal) => await this.work(acquire, permits, signal, fixed.holdMs),
          options,
        );
      } else if (way < SETS && pool.perKey === undefined) {
        await link.tell({ do: 'ask', acquire, resource: pool.resource, ...asked, set: acquire });
        const two = [{ of: this.semaphore(pool, client), permits: 2 }] as const;
        const work = async ([permits]: [HeldPermit[]], signal: AbortSignal) =>
          await this.work(acquire, permits, signal, fixed.holdMs);
        await withPermits(two, work, options);
      } else if (way < 0.4 && permitPool) {
        const keyed = pool.perKey === undefined ? {} : { key };
        await link.tell({ do: 'ask', acquire, resource: pool.resource, ...asked, ...keyed, pooled: true });
        const all = { ...options, ...keyed };
        await permitPool.withPermit(async (permit) => await this.work(acquire, [permit], permit.signal), all);
      } else {
        const keyed = pool.perKey === undefined ? {} : { key };
        await link.tell({ do: 'ask', acquire, resource: pool.resource, ...asked, ...keyed });
        const single = this.semaphore(pool, client, luck.chance(0.3));
        const all = { ...options, ...keyed, ...preemption(luck, pool, timeout) };
        await single.withPermit(async (permit) => await this.work(acquire, [permit], permit.signal), all);
      }
    } catch (error) {
      if (error instanceof PermitLostError) return; // it was served
      const outcome = outcomeOf(error, aborter.signal);
      await link.tell({ do: 'settle', acquire, outcome, error: String(error) });
    }
  }

  /** The name of an acquire. */
  private nextName(): string {
    return `${this.input.name}-${this.life}-${this.count++}`;
  }

  private client(interceptor: WorkflowClientInterceptor): Client {
    const { connection, input } = this;
    return new Client({ connection, identity: input.name, interceptors: { workflow: [interceptor] } });
  }

  private semaphore(pool: PoolSetup, client: Client, fair = false): SemaphoreClient {
    const { resource, slots, paceMs, perKey } = pool;
    const { taskQueue, recheckAfterMs } = this.input;
    return new SemaphoreClient(client, resource, {
      ...slots,
      ...{ taskQueue, lease: LEASE_MS, recheckAfter: recheckAfterMs, fair: fair || pool.fair, perKey },
      ...(paceMs !== undefined && { pace: { every: paceMs } }),
    });
  }

  /** The first permit is the acquire's; each other one is told of as a part of it. */
  private async work(
    acquire: string,
    permits: readonly HeldPermit[],
    signal: AbortSignal,
    holdMs = this.luck.holdMs(LEASE_MS),
  ): Promise<void> {
    const { link } = this;
    const parts = permits.map((permit, index) => ({
      acquire: index === 0 ? acquire : `${acquire}+${index}`,
      token: FencingToken.from(permit).toString(),
    }));
    for (const [index, { acquire: part, token }] of parts.entries()) {
      const { resource } = permits[index] as HeldPermit;
      if (index > 0) await link.tell({ do: 'ask', acquire: part, resource, actor: this.input.name, set: acquire });
      await link.tell({ do: 'begin', acquire: part, token });
    }
    const untilMs = performance.now() + holdMs;
    while (performance.now() < untilMs && !signal.aborted) {
      for (const part of parts) await link.tell({ do: 'write', ...part });
      await delay(WRITE_EVERY_MS);
    }
    for (const { acquire: part } of parts) await link.tell({ do: 'end', acquire: part });
  }

  /**
   * Sees each call of one acquire: cancels it at one of them, or as it claims the slot of its turn, spoils signals, and kills this process
   * at its turn.
   */
  private interceptor(aborter?: AbortController, cancelAt?: number | 'turn'): WorkflowClientInterceptor {
    let calls = 0;
    const step = async <T>(call: () => Promise<T>, isTurn = false): Promise<T> => {
      const due = ++calls === cancelAt || (isTurn && cancelAt === 'turn');
      if (due) void this.link.tell({ do: 'fault', kind: 'acquire-cancelled' });
      const abort = () => aborter?.abort(new Error('cancelled'));
      const isBefore = cancelAt !== 'turn' && this.luck.chance(0.5);
      if (due && isBefore) abort();
      const answer = call();
      // The server carries out a call that was sent.
      if (due && !isBefore) setTimeout(abort, this.luck.between(0, 10));
      return await answer;
    };
    return {
      start: async (input, next) => {
        const [claim] = input.options.args as [PermitInput?];
        const isTurn = input.workflowType === PERMIT_WORKFLOW && claim?.watchedBy !== undefined;
        const dies = isTurn && this.armed;
        if (dies && this.luck.chance(0.5)) process.kill(process.pid, 'SIGKILL');
        const answer = await step(() => next(input), isTurn);
        if (dies) process.kill(process.pid, 'SIGKILL');
        return answer;
      },
      describe: (input, next) => step(() => next(input)),
      cancel: (input, next) => step(() => next(input)),
      signal: (input, next) =>
        step(async () => {
          // A set's other resources hear all that is sent.
          const isFlaky = input.workflowExecution.workflowId?.includes(FLAKY);
          const fault = isFlaky ? signalFault(this.luck.next()) : undefined;
          if (fault) void this.link.tell({ do: 'fault', kind: fault });
          if (fault === 'signal-dropped') return;
          if (fault === 'signal-delayed') await delay(this.luck.between(0, 800));
          if (fault === 'signal-doubled') await next(input);
          await next(input);
        }),
    };
  }
}

/** Whether the server is away is no fault of the library's. */
function outcomeOf(error: unknown, signal?: AbortSignal): Outcome {
  if (error instanceof PermitTimeoutError) return error.timeoutMs === 0 ? 'full' : 'timeout';
  if (signal?.aborted && error === signal.reason) return 'cancelled';
  if (isTransient(error)) return 'unavailable';
  return 'failed';
}
