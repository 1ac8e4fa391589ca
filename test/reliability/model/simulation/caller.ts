import { Acquirer, type LineMessage, type Offer, offersSlot, type Place } from '../../../../src/shared/acquirer';
import { Lease } from '../../../../src/shared/lease';
import { type ResolvedSemaphore, resolveSetAcquire } from '../../../../src/shared/options';
import {
  acquireInOrder,
  acquireUntilEnough,
  partsInOrder,
  releaseInReverse,
  TooFewSlots,
  ticketPartOf,
  withoutHeld,
} from '../../../../src/shared/permit-set';
import type { PoolShare, Ticket } from '../../../../src/shared/protocol';
import { type PartOfSet, requestOf } from '../../../../src/shared/request';
import type { PermitRun, Server } from './server';

const NEVER = Number.POSITIVE_INFINITY;

/** Why an acquire ends without a permit. */
class Given extends Error {}

/** A process that calls: it may be killed, and stopped for a while. */
export class Process {
  isDead = false;
  stoppedUntilMs = 0;
  readonly whenDead: Promise<undefined>;
  private die: () => void = () => undefined;

  constructor(readonly name: string) {
    this.whenDead = new Promise((resolve) => {
      this.die = () => resolve(undefined);
    });
  }

  kill(): void {
    this.isDead = true;
    this.die();
  }
}

export interface Asking {
  readonly process: Process;
  readonly name: string;
  readonly priorityKey?: number;
  readonly fairnessKey?: string;
  readonly sinceMs: number;
  readonly deadlineMs: number;
  /** Aborts the wait. */
  readonly over: { isOver: boolean; wake: Set<() => void> };
  readonly pool?: PoolShare;
  readonly part?: PartOfSet;
}

/** A permit as its holder has it, by the real lease. */
export class Hold {
  readonly lease: Lease;
  readonly resource: string;
  readonly slot: string;
  readonly fromMs: number;
  /** When the holder let it go, or had to stop. */
  toMs = Number.POSITIVE_INFINITY;
  isReleased = false;
  readonly whenStopped: Promise<void>;
  private tellStopped: () => void = () => undefined;

  constructor(
    private readonly server: Server,
    readonly run: PermitRun,
    readonly process: Process,
    sentMs: number,
  ) {
    this.resource = run.resource;
    this.slot = run.slot;
    this.fromMs = server.world.nowMs;
    this.lease = new Lease(run.leaseMs, sentMs, Number.POSITIVE_INFINITY, () => server.world.nowMs);
    this.whenStopped = new Promise((resolve) => {
      this.tellStopped = resolve;
    });
    void this.renew();
    void this.tellOfTermination();
  }

  get isLost(): boolean {
    return this.run.closedMs < Number.POSITIVE_INFINITY || this.lease.safeMs <= 0;
  }

  /** @returns once its slot is free, or its lease over */
  async release(): Promise<void> {
    this.isReleased = true;
    this.stop();
    if (this.process.isDead) return;
    await this.server.signal(this.run, 'release');
    if (this.run.keepsUntilMs <= this.server.world.nowMs) await this.run.whenClosed;
  }

  /** A permit that was terminated could not tell its queue. */
  private async tellOfTermination(): Promise<void> {
    await this.run.whenClosed;
    const { process, run, server } = this;
    if (run.isEnding) return;
    if (process.stoppedUntilMs > server.world.nowMs)
      await server.world.sleep(process.stoppedUntilMs - server.world.nowMs);
    if (!process.isDead) await server.tellQueue(run.resource, ({ state }) => state.closing(run));
  }

  stop(): void {
    this.toMs = Math.min(this.toMs, this.server.world.nowMs);
    this.tellStopped();
  }

  private async renew(): Promise<void> {
    const { world } = this.server;
    while (this.toMs === Number.POSITIVE_INFINITY) {
      await world.sleep(Math.max(1, this.lease.dueMs(this.run.leaseMs / 3)));
      const { process } = this;
      if (process.stoppedUntilMs > world.nowMs) await world.sleep(process.stoppedUntilMs - world.nowMs);
      if (process.isDead || this.isLost) this.stop();
      if (this.toMs < Number.POSITIVE_INFINITY) return;
      const sentMs = world.nowMs;
      if (await this.server.signal(this.run, 'renew')) this.lease.renewed(sentMs);
    }
  }
}

/** Acquires one permit, by the real acquirer. `undefined`: its time is up, or it waits no longer. */
export async function acquire(server: Server, semaphore: ResolvedSemaphore, asking: Asking): Promise<Hold | undefined> {
  const { world } = server;
  const { resource, slots, recheckAfterMs, fair, leaseMs } = semaphore;
  const { process, name, priorityKey, fairnessKey, sinceMs, pool, part } = asking;
  const id = `${name} ${world.integer(0, 2 ** 30)}`;
  const waiter = { workflowId: `waiter ${id}`, runId: `run of ${id}` };
  const priority = { priorityKey, fairnessKey };
  const caller = { sinceMs, namespace: server.namespace, identity: process.name, pool };
  const { ticket, memo } = requestOf(semaphore, { ...resolveSetAcquire(), priority }, caller, part);
  const acquirer = new Acquirer<Hold>(
    {
      slots,
      deadlineMs: asking.deadlineMs,
      recheckAfterMs,
      firstTries: 2,
      triesBeforeJoin: fair ? 0 : 1,
      triesPerRound: 5,
    },
    {
      nowMs: () => world.nowMs,
      random: world.random,
      claim: async (slot, offer) => {
        if (asking.over.isOver) throw new Given();
        const sentMs = world.nowMs;
        const run = await server.claim(resource, slot, name, leaseMs, {
          byTurn: offer !== undefined,
          paceMs: memo.paceMs,
        });
        if (!run) return undefined;
        const hold = new Hold(server, run, process, sentMs);
        if (!asking.over.isOver && !process.isDead) return hold;
        await hold.release(); // as a Workflow does: then the queue hears of its end before it hears that nobody uses the turn
        throw new Given();
      },
      place: () => new LinePlace(server, semaphore, { ...ticket, id, waiter }, asking),
      ...(ticket.permits !== undefined && {
        full: () => {
          throw new TooFewSlots(resource, recheckAfterMs);
        },
      }),
    },
  );
  try {
    return await acquirer.acquire();
  } catch (error) {
    if (error instanceof Given) return undefined;
    throw error;
  }
}

/** A set of permits, by the real order of its parts. `undefined` as for one; `'lost'`: one of them was lost while it waited. */
export async function acquireSet(
  server: Server,
  wanted: Parameters<typeof partsInOrder<ResolvedSemaphore>>[0],
  asking: Asking,
): Promise<Hold[] | 'lost' | undefined> {
  const { world } = server;
  const parts = partsInOrder(wanted, { outlivesRun: false });
  let isLost = false;
  const lose = (hold: Hold) => {
    if (hold.toMs < Number.POSITIVE_INFINITY && hold.isReleased) return;
    isLost = true;
    endWait(asking.over);
  };
  const one = async (part: (typeof parts)[number], had: readonly Hold[], isAgain: boolean) => {
    const semaphore = { ...withoutHeld(part.semaphore, had), ...(isAgain && { fair: true }) };
    const { name, priorityKey = 3 } = asking;
    const kept = had.map(({ resource }) => resource);
    const wait = {
      name,
      resource: semaphore.resource,
      priorityKey,
      kept,
      fromMs: world.nowMs,
      toMs: NEVER,
      isHad: false,
    };
    server.waits.push(wait);
    const hold = await acquire(server, semaphore, { ...asking, part: ticketPartOf(part, had) }).finally(() => {
      wait.toMs = world.nowMs;
    });
    if (!hold) throw new Given();
    wait.isHad = true;
    void Promise.race([hold.run.whenClosed, hold.whenStopped]).then(() => lose(hold));
    return hold;
  };
  const confirm = () => {
    if (asking.over.isOver) throw new Given();
  };
  const wait = async (ms: number) => {
    await world.sleep(ms);
    if (asking.over.isOver || world.nowMs >= asking.deadlineMs) throw new Given();
  };
  try {
    const held = await acquireUntilEnough(
      () => acquireInOrder(parts, one, confirm),
      wait,
      world.random,
      () => false,
    );
    return held.map(({ grant }) => grant);
  } catch (error) {
    if (error instanceof Given) return isLost ? 'lost' : undefined;
    throw error;
  }
}

export function endWait(over: Asking['over']): void {
  over.isOver = true;
  for (const wake of over.wake) wake();
}

export async function releaseAll(holds: readonly Hold[]): Promise<void> {
  await releaseInReverse(holds);
}

/** A place in line, as a Workflow's or a waiter's. */
class LinePlace implements Place {
  private word: LineMessage | undefined;
  private openOffer: Offer | undefined;
  private inLine = false;
  private wake: () => void = () => undefined;

  constructor(
    private readonly server: Server,
    private readonly semaphore: ResolvedSemaphore,
    private readonly ticket: Ticket,
    private readonly asking: Asking,
  ) {
    server.hearers.set(ticket.waiter.workflowId, this);
  }

  hear(word: LineMessage): void {
    if (this.asking.process.isDead) return;
    if (typeof word === 'object') {
      const turn = { queueId: word.queueId, ticketId: this.ticket.id, slot: word.slot, capacity: word.capacity };
      if (!offersSlot(turn, this.semaphore.compactSlots)) return;
    } else if (typeof this.word === 'object' || this.word === 'give-way') return;
    this.word = word;
    this.wake();
  }

  async join(): Promise<boolean> {
    return await this.enqueue(this.ticket);
  }

  async enter(): Promise<void> {
    await this.lineUp(this.ticket);
  }

  async ask(): Promise<void> {
    await this.lineUp({ ...this.ticket, answer: true });
  }

  async next(withinMs: number): Promise<LineMessage | undefined> {
    const { world } = this.server;
    const { over, process } = this.asking;
    if (!this.word && !over.isOver) {
      const heard = new Promise<void>((resolve) => {
        this.wake = resolve;
      });
      over.wake.add(this.wake);
      await Promise.race([heard, world.sleep(withinMs)]);
      over.wake.delete(this.wake);
    }
    if (process.isDead) await new Promise(() => undefined); // nobody runs its code any more
    if (process.stoppedUntilMs > world.nowMs) await world.sleep(process.stoppedUntilMs - world.nowMs);
    if (over.isOver) throw new Given();
    const { word } = this;
    this.word = undefined;
    if (typeof word === 'object') this.openOffer = word;
    return word;
  }

  async missed(): Promise<void> {
    const slot = this.openOffer?.slot ?? '';
    this.openOffer = undefined;
    this.inLine = true;
    const { world } = this.server;
    const isTold = await this.server.tellQueue(this.semaphore.resource, ({ state }) =>
      state.missed(this.ticket, slot, world.nowMs),
    );
    if (!isTold) await this.lineUp(this.ticket);
  }

  served(): void {
    this.openOffer = undefined;
    this.inLine = false;
  }

  async leave(): Promise<void> {
    const { hearers } = this.server;
    hearers.delete(this.ticket.waiter.workflowId);
    const offer = this.openOffer ?? (typeof this.word === 'object' ? this.word : undefined);
    if (this.inLine || offer)
      await this.server.tellQueue(this.semaphore.resource, (queue) => queue.decline(this.ticket.id));
  }

  private async lineUp(ticket: Ticket): Promise<void> {
    for (let step = 0; step < 10; step++) {
      if (await this.enqueue(ticket)) return;
      if (await this.server.startQueue(this.semaphore.resource, ticket)) {
        this.inLine = true;
        return;
      }
    }
  }

  private async enqueue(ticket: Ticket): Promise<boolean> {
    const isTold = await this.server.tellQueue(this.semaphore.resource, (queue) => queue.take(ticket));
    this.inLine ||= isTold;
    return isTold;
  }
}
