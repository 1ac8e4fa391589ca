import { setTimeout as delay } from 'node:timers/promises';
import { Client, type Connection, isGrpcServiceError, type WorkflowClientInterceptor } from '@temporalio/client';
import { type Permit, PermitLostError, PermitTimeoutError, SemaphoreClient } from '@/client';
import { FencingToken } from '@/fencing';
import { PERMIT_WORKFLOW, type PermitInput } from '@/shared/protocol';
import type { ObserverLink } from '../observer-link';
import { Luck } from '../random';
import type { Outcome } from '../record';
import { WRITE_EVERY_MS } from './application';
import type { ActorInput, PoolSetup } from './input';
import { signalFault } from './signal-faults';

const LEASE_MS = 4_000;

/** Several holders outside Workflows, in one process: each acquires, works and releases, again and again. */
export class ClientHolders {
  private stopping = false;
  /** The next to have its turn dies of it. */
  private armed = false;
  private count = 0;
  private readonly luck: Luck;

  constructor(
    private readonly input: ActorInput,
    private readonly connection: Connection,
    private readonly link: ObserverLink,
  ) {
    this.luck = new Luck(`${input.seed}/${input.name}`);
  }

  stop(): void {
    this.stopping = true;
  }

  killOnTurn(): void {
    this.armed = true;
  }

  async run(): Promise<void> {
    await Promise.all(Array.from({ length: this.input.holders }, (_, lane) => this.lane(lane)));
  }

  private async lane(lane: number): Promise<void> {
    await delay(lane * 200);
    while (!this.stopping) {
      const pool = this.input.pools[this.luck.whole(0, this.input.pools.length - 1)] as PoolSetup;
      await this.acquire(pool);
      await delay(this.luck.between(0, 300));
    }
  }

  private async acquire({ resource, slots, flaky }: PoolSetup): Promise<void> {
    const acquire = `${this.input.name}-${process.pid}-${this.count++}`;
    const { luck, link } = this;
    const aborter = new AbortController();
    const cancelAt = luck.chance(0.15) ? luck.whole(1, 6) : undefined;
    const interceptor = this.interceptor(flaky, aborter, cancelAt);
    const client = new Client({
      connection: this.connection,
      identity: this.input.name,
      interceptors: { workflow: [interceptor] },
    });
    const pool = new SemaphoreClient(client, resource, {
      ...slots,
      taskQueue: this.input.taskQueue,
      lease: LEASE_MS,
      recheckAfter: this.input.recheckAfterMs,
      fair: luck.chance(0.3),
    });
    const timeout = luck.chance(0.2) ? luck.whole(0, 10_000) : undefined;
    const priority = { priorityKey: luck.whole(1, 3) };
    await link.tell({ do: 'ask', acquire, resource, actor: this.input.name });
    try {
      await pool.withPermit((permit) => this.work(acquire, permit), { timeout, priority, signal: aborter.signal });
    } catch (error) {
      if (error instanceof PermitLostError) return; // it was served
      const outcome = outcomeOf(error, aborter.signal);
      await link.tell({ do: 'settle', acquire, outcome, error: String(error) });
    }
  }

  private async work(acquire: string, permit: Permit): Promise<void> {
    const token = FencingToken.from(permit).toString();
    await this.link.tell({ do: 'begin', acquire, token });
    const untilMs = performance.now() + this.luck.between(100, 1_200) * (this.luck.chance(0.05) ? 8 : 1);
    while (performance.now() < untilMs && !permit.signal.aborted) {
      await this.link.tell({ do: 'write', acquire, token });
      await delay(WRITE_EVERY_MS);
    }
    await this.link.tell({ do: 'end', acquire });
  }

  /** Sees each call of one acquire: cancels it at one of them, spoils signals, and kills this process at its turn. */
  private interceptor(flaky: boolean, aborter: AbortController, cancelAt?: number): WorkflowClientInterceptor {
    let calls = 0;
    const step = async <T>(call: () => Promise<T>): Promise<T> => {
      const due = ++calls === cancelAt;
      if (due) void this.link.tell({ do: 'fault', kind: 'acquire-cancelled' });
      const isBefore = this.luck.chance(0.5);
      if (due && isBefore) aborter.abort(new Error('cancelled'));
      const answer = call();
      if (due && !isBefore) aborter.abort(new Error('cancelled'));
      return await answer;
    };
    return {
      start: async (input, next) => {
        const [claim] = input.options.args as [PermitInput?];
        const isTurn = input.workflowType === PERMIT_WORKFLOW && claim?.watchedBy !== undefined;
        const dies = isTurn && this.armed;
        if (dies && this.luck.chance(0.5)) process.kill(process.pid, 'SIGKILL');
        const answer = await step(() => next(input));
        if (dies) process.kill(process.pid, 'SIGKILL');
        return answer;
      },
      describe: (input, next) => step(() => next(input)),
      cancel: (input, next) => step(() => next(input)),
      signal: (input, next) =>
        step(async () => {
          const fault = flaky ? signalFault(this.luck.next()) : undefined;
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
function outcomeOf(error: unknown, signal: AbortSignal): Outcome {
  if (error instanceof PermitTimeoutError) return error.timeoutMs === 0 ? 'full' : 'timeout';
  if (signal.aborted && error === signal.reason) return 'cancelled';
  const { cause } = error as { cause?: unknown };
  if (isGrpcServiceError(error) || isGrpcServiceError(cause)) return 'unavailable';
  return 'failed';
}
