import type { LineMessage } from '../../../../src/shared/acquirer';
import { leastPaceMs, START_INTERVAL_MS } from '../../../../src/shared/pace';
import type { QueueView, Ticket } from '../../../../src/shared/protocol';
import { wantsSlot } from '../../../../src/shared/slots';
import { Inheritance } from '../../../../src/workflows/queue/inheritance';
import { atMost, type InheritanceCommand, type QueueCommand } from '../../../../src/workflows/queue/queue-command';
import { QueueState, REMEMBER_HELD_MS } from '../../../../src/workflows/queue/queue-state';
import type { World } from './world';

/** A permit's Workflow. */
export interface PermitRun {
  readonly resource: string;
  readonly slot: string;
  readonly runId: string;
  readonly claimId: string;
  readonly by: string;
  readonly startedAtMs: number;
  /** Until when it keeps the slot for its pace, although it is released. 0: it has no pace. */
  readonly keepsUntilMs: number;
  leaseMs: number;
  deadlineMs: number;
  /** Claimed on a turn. */
  readonly byTurn: boolean;
  isWatched: boolean;
  isEnding: boolean;
  isTerminated: boolean;
  closedMs: number;
  readonly whenClosed: Promise<void>;
  readonly tellClosed: () => void;
}

/** Who can get a turn. */
export interface Hearer {
  hear(word: LineMessage): void;
}

const LINGER_MS = 2_000;
const MAX_SENDING = 64;
const LOST_ANSWER_MS = 1_000;
const SLOW_MS = 1_000;
const DRAIN_LEASE_MS = 3_600_000;
/** When the server tries a start again that its rule has refused; each next time comes after twice as long. */
const REFUSED_MS = 1_200;

/** One part of a set that somebody wants. */
export interface Wait {
  readonly name: string;
  readonly resource: string;
  readonly priorityKey: number;
  /** What the caller keeps meanwhile. */
  readonly kept: readonly string[];
  readonly fromMs: number;
  /** Until when it waits, and whether it then has it. */
  toMs: number;
  isHad: boolean;
}

/** The Temporal server as far as permits, queues and waiters need it, and the Workflows of permits and queues that run on it. */
export class Server {
  readonly permits = new Map<string, PermitRun>();
  readonly hearers = new Map<string, Hearer>();
  readonly queues = new Map<string, Queue>();
  /** All permits that ever were. */
  readonly runs: PermitRun[] = [];
  readonly waits: Wait[] = [];
  /** One of Temporal Cloud, where the server has its rule: then permits have a pace. */
  readonly namespace: string;
  private made = 0;
  private readonly lastStartMs = new Map<string, number>();

  /** @param startsOnceASecond whether it refuses the second start of a slot within a second */
  constructor(
    readonly world: World,
    private readonly startsOnceASecond: boolean,
  ) {
    this.namespace = startsOnceASecond ? 'simulated.a1b2c' : 'simulated';
  }

  /** A client's or Workflow's claim, with its retries. `undefined`: somebody else has the slot. */
  async claim(
    resource: string,
    slot: string,
    by: string,
    leaseMs: number,
    { byTurn = false, paceMs = 0 } = {},
  ): Promise<PermitRun | undefined> {
    const { world } = this;
    const claimId = `claim ${++this.made}`;
    const sentMs = world.nowMs;
    for (let refusedMs = REFUSED_MS; ; ) {
      await world.hop();
      const id = `${resource}:${slot}`;
      if (this.refuses(id)) {
        await world.sleep(refusedMs);
        refusedMs *= 2;
        continue;
      }
      const keepsUntilMs = paceMs && world.nowMs + paceMs;
      const running = this.permits.get(id);
      const ours = running
        ? running.claimId === claimId
          ? running
          : undefined
        : this.open(resource, slot, { claimId, by, leaseMs, byTurn, isWatched: byTurn, keepsUntilMs });
      if (world.isLost()) {
        await world.sleep(LOST_ANSWER_MS);
        continue;
      }
      await world.hop();
      // As a client has it: the run that a slow answer names may have ended meanwhile.
      const isGone = ours && world.nowMs - sentMs > SLOW_MS && this.permits.get(id) !== ours;
      return isGone ? await this.claim(resource, slot, by, leaseMs, { byTurn, paceMs }) : ours;
    }
  }

  /** @returns whether the run was there */
  async signal(run: PermitRun, what: 'release' | 'renew'): Promise<boolean> {
    const { world } = this;
    for (;;) {
      await world.hop();
      const isThere = this.permits.get(`${run.resource}:${run.slot}`) === run;
      if (isThere && what === 'release') this.end(run, 'released');
      else if (isThere && !run.isEnding) run.deadlineMs = Math.max(run.deadlineMs, world.nowMs + run.leaseMs);
      if (world.isLost()) {
        await world.sleep(LOST_ANSWER_MS);
        continue;
      }
      await world.hop();
      return isThere;
    }
  }

  /** @returns whether there is a queue that has it */
  async tellQueue(resource: string, handle: (queue: Queue) => void): Promise<boolean> {
    await this.world.hop();
    const queue = this.queues.get(resource);
    queue?.accept(() => handle(queue));
    await this.world.hop();
    return queue !== undefined;
  }

  /** @returns whether there was none before */
  async startQueue(resource: string, ticket?: Ticket): Promise<boolean> {
    await this.world.hop();
    const isNew = !this.queues.has(resource);
    if (isNew) {
      const queue = new Queue(this, resource);
      this.queues.set(resource, queue);
      queue.accept(() => ticket && queue.take(ticket));
    }
    await this.world.hop();
    return isNew;
  }

  /** A fault, or an operator's order. */
  terminate(run: PermitRun): void {
    this.world.tell(`terminated ${run.resource}:${run.slot}`);
    run.isTerminated = true;
    this.close(run);
  }

  /** The rule of one start a second. */
  private refuses(id: string): boolean {
    if (!this.startsOnceASecond || this.permits.has(id)) return false;
    return this.world.nowMs - (this.lastStartMs.get(id) ?? Number.NEGATIVE_INFINITY) < START_INTERVAL_MS;
  }

  private open(
    resource: string,
    slot: string,
    made: Pick<PermitRun, 'claimId' | 'by' | 'leaseMs' | 'byTurn' | 'isWatched' | 'keepsUntilMs'>,
  ): PermitRun {
    const { world } = this;
    let tellClosed = () => {};
    const whenClosed = new Promise<void>((resolve) => {
      tellClosed = resolve;
    });
    const run: PermitRun = {
      whenClosed,
      tellClosed,
      resource,
      slot,
      runId: `run ${++this.made}`,
      ...made,
      startedAtMs: world.nowMs,
      deadlineMs: world.nowMs + made.leaseMs,
      isEnding: false,
      isTerminated: false,
      closedMs: Number.POSITIVE_INFINITY,
    };
    this.permits.set(`${resource}:${slot}`, run);
    this.lastStartMs.set(`${resource}:${slot}`, world.nowMs);
    this.runs.push(run);
    world.tell(`${made.by} has ${resource}:${slot}`);
    const check = () => {
      if (run.isEnding || run.closedMs < Number.POSITIVE_INFINITY) return;
      if (world.nowMs >= run.deadlineMs) this.end(run, 'its lease is over');
      else world.at(run.deadlineMs, check);
    };
    world.at(run.deadlineMs, check);
    return run;
  }

  private end(run: PermitRun, how: string): void {
    if (run.isEnding) return;
    run.isEnding = true;
    this.world.tell(`${run.resource}:${run.slot} of ${run.by} ends: ${how}`);
    void this.endWithNotices(run);
  }

  private async endWithNotices(run: PermitRun): Promise<void> {
    if (run.keepsUntilMs > this.world.nowMs) await this.world.sleep(run.keepsUntilMs - this.world.nowMs);
    while (run.isWatched) {
      run.isWatched = false; // one that asks meanwhile is told again
      await this.tellQueue(run.resource, ({ state }) => state.closing(run));
    }
    if (run.closedMs === Number.POSITIVE_INFINITY) this.close(run);
  }

  private close(run: PermitRun): void {
    this.permits.delete(`${run.resource}:${run.slot}`);
    run.closedMs = this.world.nowMs;
    run.tellClosed();
  }
}

/** A wait queue: its real state, and the shell around it as `wait-queue` and `carry-out` have it. */
export class Queue {
  state = new QueueState();
  inheritance: Inheritance;
  private inbox: (() => void)[] = [];
  private readonly unanswered = new Map<string, Ticket>();
  private sending = 0;
  private isAwake = false;
  private isOver = false;
  private lingersUntilMs = Number.POSITIVE_INFINITY;
  /** Until when no worker runs it. */
  stoppedUntilMs = 0;

  constructor(
    private readonly server: Server,
    private readonly resource: string,
  ) {
    this.inheritance = new Inheritance(resource);
  }

  accept(handle: () => void): void {
    this.inbox.push(handle);
    this.wake();
  }

  take(ticket: Ticket): void {
    if (!this.state.enqueue(ticket, this.server.world.nowMs) || ticket.answer) this.unanswered.set(ticket.id, ticket);
  }

  decline(ticketId: string): void {
    this.state.declined(ticketId);
    if (!this.state.ticket(ticketId)) this.unanswered.delete(ticketId);
  }

  terminate(): void {
    const { world, queues } = this.server;
    world.tell(`the queue of ${this.resource} is terminated`);
    this.isOver = true;
    queues.delete(this.resource);
  }

  continueAsNew(): void {
    if (this.sending > 0 || this.inbox.length > 0 || this.isOver) return;
    this.server.world.tell(`the queue of ${this.resource} continues as new`);
    const { inDoubt, outranked } = this.state;
    const unasked = this.inheritance.unasked(this.state);
    this.state = new QueueState(JSON.parse(JSON.stringify(this.state.view())) as QueueView);
    this.state.doubt(inDoubt);
    this.state.outrank(outranked);
    this.inheritance = new Inheritance(this.resource, this.state.inheriting(), unasked);
    this.wake();
  }

  private wake(): void {
    if (this.isAwake || this.isOver) return;
    this.isAwake = true;
    const { world } = this.server;
    world.at(Math.max(this.stoppedUntilMs, world.nowMs + world.integer(2, 15)), () => {
      this.isAwake = false;
      if (!this.isOver) this.work();
    });
  }

  private work(): void {
    const { world, queues, permits } = this.server;
    const messages = this.inbox;
    this.inbox = [];
    for (const handle of messages) handle();
    for (const command of this.state.next(world.nowMs, MAX_SENDING - this.sending))
      this.send(() => this.carryOut(command));
    for (const command of atMost(MAX_SENDING - this.sending, this.inheritance.moves(this.state, world.nowMs)))
      this.send(() => this.passOn(command));
    for (const [ticketId, { waiter }] of this.unanswered) {
      this.unanswered.delete(ticketId);
      const word = this.state.ticket(ticketId) ? 'waiting' : 'full';
      this.send(() => this.deliver(waiter.workflowId, word));
    }
    if (!this.state.idle || this.sending > 0) this.lingersUntilMs = Number.POSITIVE_INFINITY;
    else if (this.lingersUntilMs === Number.POSITIVE_INFINITY)
      this.lingersUntilMs = world.nowMs + (this.state.awaitsClosing ? REMEMBER_HELD_MS : LINGER_MS);
    const isIdleFor = this.lingersUntilMs <= world.nowMs;
    if (isIdleFor && [...permits.values()].every(({ by }) => by !== `queue of ${this.resource}`)) {
      this.isOver = true;
      queues.delete(this.resource);
      return;
    }
    const dueMs = Math.min(this.state.dueMs(), this.lingersUntilMs);
    if (dueMs < Number.POSITIVE_INFINITY) world.at(Math.max(dueMs, world.nowMs + 1), () => this.wake());
  }

  private send(message: () => Promise<unknown>): void {
    this.sending++;
    void message().then(() => {
      this.sending--;
      this.wake();
    });
  }

  private async carryOut(command: QueueCommand): Promise<void> {
    const { server, resource, state } = this;
    const { world } = server;
    if (command.do === 'refuse' || command.do === 'give-way') {
      const word = command.do === 'give-way' ? 'give-way' : command.superseded ? 'superseded' : 'full';
      await this.deliver(command.ticket.waiter.workflowId, word);
      return;
    }
    if (command.do === 'ask-waiter') {
      const isThere = await this.deliver(command.ticket.waiter.workflowId, 'waiting');
      state.present(command.ticket, isThere, world.nowMs);
      return;
    }
    const { slot } = command;
    const running = () => server.permits.get(`${resource}:${slot}`);
    if (command.do === 'probe') {
      await world.hop();
      const permit = running();
      if (permit) permit.isWatched = true;
      if (permit?.by === `queue of ${resource}`) this.accept(() => this.state.drained(slot, permit.runId));
      await world.hop();
      state.probed(slot, permit !== undefined, world.nowMs);
    } else if (command.do === 'offer') {
      const { ticket, also = [] } = command;
      await Promise.all([ticket, ...also].map((it) => this.offer(slot, it)));
    } else if (command.do === 'drain') {
      const run = await server.claim(resource, slot, `queue of ${resource}`, DRAIN_LEASE_MS, {
        byTurn: true,
        paceMs: leastPaceMs(server.namespace),
      });
      state.claimed(slot, run?.runId, world.nowMs);
    } else if (command.do === 'renew' || command.do === 'release') {
      await world.hop();
      const permit = running();
      if (permit?.runId !== command.runId) state.gone(slot, command.runId);
      else await server.signal(permit, command.do);
    }
  }

  private async offer(slot: string, ticket: Ticket): Promise<void> {
    const capacity = wantsSlot(ticket.slots, slot) ? undefined : this.state.overridden?.capacity;
    const isThere = await this.deliver(ticket.waiter.workflowId, { slot, queueId: this.resource, capacity });
    if (!isThere) this.state.undeliverable(slot, ticket.id);
  }

  private async deliver(workflowId: string, word: LineMessage): Promise<boolean> {
    await this.server.world.hop();
    const hearer = this.server.hearers.get(workflowId);
    hearer?.hear(word);
    await this.server.world.hop();
    return hearer !== undefined;
  }

  private async passOn(command: InheritanceCommand): Promise<void> {
    const { server, resource } = this;
    if (command.do === 'ask-priority') {
      await server.tellQueue(command.of, ({ inheritance }) => inheritance.asks(resource));
    } else if (!(await server.tellQueue(command.to, ({ state }) => state.inherit(resource, command.priorityKey)))) {
      this.inheritance.gone(command.to);
    }
  }
}
