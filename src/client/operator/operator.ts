import type { Duration } from '@temporalio/common';
import { refuse } from '../../shared/invalid-options';
import type { OverrideInput } from '../../shared/operator-protocol';
import { durationMs, MAX_SLOTS } from '../../shared/options';
import { checkReason, pauseEndMs } from '../../shared/pause-end';
import { checkSlot } from '../../shared/permit-id';
import { REVOKE } from '../../shared/protocol';
import { monotonicMs } from '../clock';
import { NotHeldError } from '../errors';
import { PermitRun } from '../holder/permit-run';
import type { Request } from '../options';
import { noAnswer, Pollers } from '../pollers';
import type { Server } from '../server';
import type { Inspection, Override, PermitInspection } from './inspection';
import { Inspector } from './inspector';
import { overrideQueue } from './override';
import { type KnownOutcomes, listPastHolds } from './visibility';
import type { WorkerQueries } from './worker-queries';

export interface InspectOptions {
  /** How many past holds to list, 0 to 100. They cost a call to visibility, of which a server allows few; `0` spares it. @default 20 */
  recent?: number;
  /** @internal Those of several looks: a task queue that nobody polls costs its time once. */
  queries?: WorkerQueries;
}

interface OperatorOptions {
  /** How long a worker may take to carry out the order. @default 10 seconds */
  timeout?: Duration;
}

export interface RevokeOptions extends OperatorOptions {
  /** Revoke only this run, as the operator has seen it: another one may hold the slot by now. @default whichever run holds it */
  runId?: string;
  /** Shown to the holder; at most 1,000 characters. */
  reason?: string;
}

export interface OverrideOptions extends OperatorOptions {
  /** Act only if the override has this version now; `0`: only if there is none. @default act in any case */
  ifVersion?: number;
  /** Shown to operators; at most 1,000 characters. */
  reason?: string;
}

export interface PauseOptions extends OverrideOptions {
  /**
   * When the pause ends by itself: in the future by this machine's clock, and at most 10 years ahead. A pause that ends later, or
   * without an end, then stays as it is.
   * @default never: until `resume`
   */
  until?: Date;
}

const ANSWER_WITHIN_MS = 10_000;

/** Lets an operator inspect one resource, and act on it. */
export class Operator {
  private readonly resource: string;
  private readonly inspector: Inspector;
  private readonly knownOutcomes: KnownOutcomes = new Map();

  constructor(
    private readonly server: Server,
    private readonly semaphore: Request['semaphore'],
  ) {
    this.resource = semaphore.resource;
    this.inspector = new Inspector(server, semaphore.resource);
  }

  async inspect({ recent = 20, queries }: InspectOptions = {}): Promise<Inspection> {
    if (!Number.isInteger(recent) || recent < 0 || recent > 100) {
      refuse('recent', 'a whole number from 0 to 100', recent);
    }
    const { server, resource, inspector, knownOutcomes } = this;
    const [now, past] = await Promise.all([
      inspector.look(this.semaphore.slots, queries),
      listPastHolds(server, resource, recent, knownOutcomes),
    ]);
    return { ...now, recent: past };
  }

  async revoke(slot: string, options: RevokeOptions = {}): Promise<PermitInspection> {
    const { resource } = this;
    checkSlot(resource, slot);
    const { runId, reason } = options;
    checkReason(reason);
    const timeoutMs = durationMs('timeout', options.timeout, 1) ?? ANSWER_WITHIN_MS;
    const permit = await this.inspector.permit(slot);
    if (!permit || (runId !== undefined && permit.runId !== runId)) throw new NotHeldError({ resource, slot }, runId);
    const limit = new AbortController();
    const timer = setTimeout(() => limit.abort(), timeoutMs);
    try {
      const run = new PermitRun(this.server, permit);
      const persistence = { untilMs: monotonicMs() + timeoutMs, signal: limit.signal };
      const delivered = await this.server.persist(() => run.send(REVOKE, undefined, { reason }), persistence);
      if (!delivered) throw new NotHeldError({ resource, slot }, runId);
      await run.end(limit.signal);
      return permit;
    } catch (error) {
      if (!limit.signal.aborted || error instanceof NotHeldError) throw error;
      throw await noAnswer(new Pollers(this.server, this.semaphore.taskQueue), resource, timeoutMs);
    } finally {
      clearTimeout(timer);
    }
  }

  async resize(capacity: number, options: OverrideOptions = {}): Promise<Override> {
    const { compactSlots } = this.semaphore;
    const most = typeof compactSlots === 'number' ? MAX_SLOTS : compactSlots.length;
    if (!Number.isInteger(capacity) || capacity < 1 || capacity > most) {
      refuse(
        'capacity',
        `a whole number from 1 to ${most}${most < MAX_SLOTS ? " (named slots can't grow)" : ''}`,
        capacity,
      );
    }
    return await this.override({ capacity }, options);
  }

  async pause({ until, ...options }: PauseOptions = {}): Promise<Override> {
    const change = until === undefined ? { paused: true } : { pauseUntilMs: pauseEndMs(until, Date.now()) };
    return await this.override(change, options);
  }

  async resume(options: OverrideOptions = {}): Promise<Override | undefined> {
    const override = await this.override({ paused: false }, options);
    return override.capacity === undefined ? undefined : override;
  }

  private async override(
    change: Pick<OverrideInput, 'capacity' | 'paused' | 'pauseUntilMs'>,
    { ifVersion, reason, timeout }: OverrideOptions,
  ): Promise<Override> {
    checkReason(reason);
    if (ifVersion !== undefined && !(Number.isInteger(ifVersion) && ifVersion >= 0)) {
      refuse('ifVersion', 'a whole number from 0', ifVersion);
    }
    const timeoutMs = durationMs('timeout', timeout, 1) ?? ANSWER_WITHIN_MS;
    const { compactSlots: slots } = this.semaphore;
    return await overrideQueue(this.server, this.semaphore, { slots, ...change, reason, ifVersion }, timeoutMs);
  }
}
