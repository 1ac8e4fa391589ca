import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { PreemptibleNotice, QueueView, Ticket } from '../../shared/protocol';
import { slotNames, wantsSlot } from '../../shared/slots';
import { ANSWERS_WITHIN_MS, LATE_MS } from './preemption';
import type { QueueCommand } from './queue-command';
import { QueueState } from './queue-state';

/** Something that a run of events may do. `pick` chooses among what there is to choose from. */
interface Move {
  kind: (typeof KINDS)[number];
  pick: number;
}

const KINDS = [
  'enqueue',
  'enqueue',
  'give up',
  'die',
  'resend',
  'inherit',
  'barge',
  'release',
  'terminate',
  'deliver watch',
  'deliver watch',
  'answer probe',
  'answer probe',
  'take turn',
  'take turn',
  'deliver closing',
  'deliver closing',
  'wait',
  'continue as new',
  'override',
  'land claim',
  'answer claim',
  'answer claim',
  'tell gone',
  'tell of the loss',
  'deliver answer',
  'deliver answer',
  'deliver preempt',
  'deliver preempt',
  'lose the queue',
  'deliver drained',
  'deliver drained',
  'answer whether there',
] as const;

interface Permit {
  runId: string;
  watched: boolean;
  /** The queue's own. */
  drain?: boolean;
  /** The priority of a holder that gives way to a higher one. */
  preemptible?: number;
  givesWay?: boolean;
}

/** How long a holder in this world may keep its permit when it has been told to give way. */
const GRACE_MS = 10_000;

/** What admits some callers to the line, which they give back where somebody of a better priority waits for it. */
const ADMISSION = 'admission';
const ADMITTED = { inherits: [ADMISSION], givesWay: true };

interface Waiter {
  ticket: Ticket;
  /** `beside`: it wants more permits than an operator has left, or has given way, and comes again later. `refused`: the line was too long for it. */
  fate: 'waits' | 'beside' | 'refused' | 'served' | 'gave up' | 'dead';
}

/** What an operator has set. */
interface Override {
  capacity?: number;
  pausedToMs: number;
  /** In place of the capacity until then. */
  temporary?: { capacity: number; untilMs: number };
}

/**
 * A world around one queue: permits that are held or not, and messages on their way, in any order and as late as chance
 * will have it. The queue may be wrong; the world knows.
 */
class World {
  private state = new QueueState();
  private nowMs = 0;
  private made = 0;
  private version = 0;
  private readonly waiters = new Map<string, Waiter>();
  private readonly permits = new Map<string, Permit>();
  private override: Override = { pausedToMs: 0 };
  /** The queue's claims of slots: each wins or loses at the server, and its answer comes back later. */
  private readonly claims: { slot: string; landed?: { runId?: string } }[] = [];
  /** News that a claim of the queue's has ended without a word. */
  private readonly gone: { slot: string; runId: string }[] = [];
  /** A probe's watch reaches a permit or none; its answer comes back later. */
  private readonly probes: { slot: string; held?: boolean; asks?: boolean }[] = [];
  /** What permits answer that were asked whether they may have to give way. */
  private readonly answers: PreemptibleNotice[] = [];
  private readonly preempts: (QueueCommand & { do: 'preempt' })[] = [];
  /** Waiters that the queue has asked whether they are there. */
  private readonly asked: Ticket[] = [];
  /** What permits answer that keep a slot out of use. */
  private readonly drains: { slot: string; runId: string }[] = [];
  /** Runs by which a queue kept slots out of use before it was terminated. */
  private readonly orphans = new Set<string>();
  /** Slots whose permit was terminated, so that the queue could not hear of it. */
  private readonly silent = new Set<string>();
  private readonly turns: { slot: string; ticketId: string }[] = [];
  /** Tickets without a turn that are to give way. */
  private readonly outranked = new Set<string>();
  private readonly closings: { slot: string; runId: string }[] = [];
  /** Permits that were terminated, and whose holders have not noticed yet. */
  private readonly lost: { slot: string; runId: string }[] = [];

  constructor(
    private readonly slots: number,
    /** How many messages the queue may send at a time. */
    private readonly room: number,
  ) {}

  make(move: Move): void {
    this.act(move);
    this.send();
    this.check();
  }

  /** Every message arrives, and no time goes by: then no slot is free that somebody in line would take. */
  calmDown(): void {
    this.arriveAll();
    // Q6: in a few seconds, for the time for an answer may begin when a turn, or the time for another answer, is over. Where the queue
    // believes in a holder that has been terminated unseen: after its grace, or when the slot is looked at again.
    let limit = 5;
    for (let seconds = 0; this.unheeded() !== undefined; seconds++) {
      if (this.believesInVain()) limit = 5 + (GRACE_MS + LATE_MS) / ANSWERS_WITHIN_MS;
      assert.ok(seconds < limit, `Q6: nobody gives way to ${this.unheeded()}`);
      this.nowMs += ANSWERS_WITHIN_MS;
      this.arriveAll();
    }
    for (const untilMs of this.reservedUntilMs()) {
      this.nowMs = Math.max(this.nowMs, untilMs); // an accumulator's next ticket does not come
      this.arriveAll();
    }
    for (const { fate, ticket } of this.waiters.values()) {
      if (fate !== 'waits' || !this.state.view().tickets.includes(ticket)) continue;
      for (const slot of slotNames(this.slots + 2)) {
        if (!this.isInUse(slot) || !this.wants(ticket, slot)) continue;
        assert.ok(
          this.permits.has(slot) || this.silent.has(slot),
          `slot ${slot} idles while ${ticket.id} waits for it`,
        );
      }
    }
    const { tickets, slots } = this.state.view();
    const offered = new Set(slots.map(([, state]) => state.at === 'offered' && state.ticketId));
    const parked = tickets.filter(({ id }) => !offered.has(id));
    for (const slot of slotNames(this.slots)) {
      const taken = this.permits.has(slot) || this.silent.has(slot);
      assert.ok(this.isInUse(slot) || taken, `slot ${slot} is out of use, and nobody has it`);
      const { drain, runId = '' } = this.permits.get(slot) ?? {};
      const isUnseen = this.orphans.has(runId) && !parked.some((ticket) => this.wants(ticket, slot));
      assert.ok(!this.isInUse(slot) || !drain || isUnseen, `slot ${slot} is in use and drained`);
    }
  }

  private *reservedUntilMs(): Generator<number> {
    const reserved = () =>
      this.state.view().slots.map(([, it]) => (it.at === 'offered' && it.reserved ? it.untilMs : 0));
    for (let untilMs = Math.max(...reserved()); untilMs > 0; untilMs = Math.max(...reserved())) yield untilMs;
  }

  /** Every message arrives, and those that come of it. */
  private arriveAll(): void {
    this.send();
    while (this.underWay > 0) {
      this.deliverAll();
      this.send();
      this.check();
    }
  }

  private get underWay(): number {
    const { closings, probes, turns, claims, gone, answers, preempts, drains, asked } = this;
    const all = [closings, probes, turns, claims, gone, answers, preempts, drains, asked];
    return all.reduce((sum, it) => sum + it.length, 0);
  }

  /** Then nothing is set any more, everyone has gone, and the queue has nothing left to do and keeps nothing. */
  end(): void {
    this.setOverride({ capacity: this.slots, paused: false });
    for (const { ticket } of this.waiters.values()) this.state.declined(ticket.id);
    this.send();
    while (this.underWay > 0) {
      this.deliverAll();
      this.send();
    }
    assert.ok(this.state.idle);
    assert.ok(![...this.permits.values()].some(({ drain }) => drain), 'an idle queue keeps a slot');
  }

  /** Then everyone releases, and time goes by: all who live and wait must be served. */
  settle(): void {
    this.setOverride({ capacity: this.slots, paused: false });
    this.send();
    for (let round = 0; round < 10_000; round++) {
      const left = [...this.waiters.values()].filter(({ fate }) => fate === 'waits' || fate === 'beside');
      if (left.length === 0) return;
      for (const slot of this.permits.keys()) this.release(slot);
      this.deliverAll();
      for (const waiter of left) this.lineUp(waiter); // as the fallback timer does
      if (this.state.dueMs() < Number.POSITIVE_INFINITY) this.nowMs = Math.max(this.nowMs, this.state.dueMs());
      this.send();
      this.check();
    }
    assert.fail(`never served: ${JSON.stringify(this.state.view())}`);
  }

  private deliverAll(): void {
    while (this.closings.length) this.act({ kind: 'deliver closing', pick: 0 });
    while (this.claims.length) this.act({ kind: 'answer claim', pick: 0 });
    while (this.gone.length) this.act({ kind: 'tell gone', pick: 0 });
    while (this.probes.length) this.act({ kind: 'answer probe', pick: 0 });
    while (this.turns.length) this.act({ kind: 'take turn', pick: 0 });
    while (this.answers.length) this.act({ kind: 'deliver answer', pick: 0 });
    while (this.preempts.length) this.act({ kind: 'deliver preempt', pick: 0 });
    while (this.drains.length) this.act({ kind: 'deliver drained', pick: 0 });
    while (this.asked.length) this.act({ kind: 'answer whether there', pick: 0 });
  }

  private act({ kind, pick }: Move): void {
    const of = <T>(items: readonly T[]): T | undefined => items[pick % Math.max(1, items.length)];
    const take = <T>(items: T[]): T | undefined => items.splice(pick % Math.max(1, items.length), 1)[0];
    switch (kind) {
      case 'enqueue':
        this.enqueue(pick);
        break;
      case 'give up':
        this.giveUp(of([...this.waiters.values()]));
        break;
      case 'die': {
        const waiter = of([...this.waiters.values()]);
        if (waiter?.fate === 'waits') waiter.fate = 'dead';
        break;
      }
      case 'resend': {
        const waiter = of([...this.waiters.values()]);
        if (waiter?.fate === 'waits' || waiter?.fate === 'beside') this.lineUp(waiter);
        break;
      }
      case 'inherit':
        this.inherit(1 + (pick % 3));
        break;
      case 'barge': {
        const slot = of(slotNames(this.slots));
        if (slot && !this.permits.has(slot)) this.hold(slot, false, pick);
        break;
      }
      case 'release': {
        const slot = of([...this.permits.keys()]);
        if (slot) this.release(slot);
        break;
      }
      case 'terminate': {
        const slot = of([...this.permits.keys()]);
        const permit = slot && this.permits.get(slot);
        if (!slot || !permit) break;
        this.permits.delete(slot);
        if (!permit.drain) this.lost.push({ slot, runId: permit.runId });
        // The run of the queue that claimed it is told by the server; the next one is not.
        if (permit.drain && pick % 2) this.gone.push({ slot, runId: permit.runId });
        else this.silent.add(slot);
        break;
      }
      case 'override':
        if (pick % 3 === 0) this.setOverride({ paused: !this.isPaused });
        else if (pick % 3 === 1) this.pauseUntil(this.nowMs + ((pick * 31) % 40_000) - 500);
        else if (pick % 2) this.resizeUntil(1 + (pick % (this.slots + 2)), this.nowMs + ((pick * 31) % 40_000) - 500);
        else this.setOverride({ capacity: 1 + (pick % (this.slots + 2)) });
        break;
      case 'land claim':
        this.landClaim(of(this.claims));
        break;
      case 'answer claim': {
        const claim = take(this.claims);
        this.landClaim(claim);
        if (claim) this.state.claimed(claim.slot, claim.landed?.runId, this.nowMs);
        break;
      }
      case 'tell gone': {
        const started = ({ runId }: { runId: string }) => !this.claims.some(({ landed }) => landed?.runId === runId);
        const gone = of(this.gone.filter(started));
        if (gone) this.gone.splice(this.gone.indexOf(gone), 1);
        if (gone) this.state.gone(gone.slot, gone.runId);
        break;
      }
      case 'tell of the loss': {
        const lost = take(this.lost);
        if (lost) this.closings.push(lost);
        break;
      }
      case 'deliver watch':
        this.deliverWatch(of(this.probes));
        break;
      case 'answer probe': {
        const probe = take(this.probes);
        this.deliverWatch(probe);
        if (probe) this.state.probed(probe.slot, probe.held ?? false, this.nowMs);
        break;
      }
      case 'take turn': {
        const turn = take(this.turns);
        if (turn) this.takeTurn(turn.slot, turn.ticketId);
        break;
      }
      case 'deliver closing': {
        const closing = take(this.closings);
        if (closing) this.state.closing(closing);
        break;
      }
      case 'deliver answer': {
        const answer = take(this.answers);
        if (!answer) break;
        const { slot, runId } = answer;
        this.state.preemptible(answer, this.nowMs);
        // Old, and believed: a new run of the queue does not know which permits have closed. A probe tells, in a second.
        const isHeld = this.state.view().slots.some(([name, { at }]) => name === slot && at === 'held');
        if (isHeld && this.permits.get(slot)?.runId !== runId) this.silent.add(slot);
        break;
      }
      case 'deliver preempt': {
        const preempt = take(this.preempts);
        const permit = preempt && this.permits.get(preempt.slot);
        if (preempt && permit?.runId !== preempt.runId) this.state.notThere(preempt.slot, preempt.runId);
        else if (preempt && permit) {
          assert.ok(
            (permit.preemptible ?? 0) > preempt.priorityKey,
            'Q4: asked a holder that is not of lower priority',
          );
          permit.givesWay = true;
        }
        break;
      }
      case 'wait':
        this.nowMs += (pick * 97) % 70_000;
        break;
      case 'answer whether there': {
        const ticket = take(this.asked);
        if (ticket) this.state.present(ticket, this.waiters.get(ticket.id)?.fate !== 'dead', this.nowMs);
        break;
      }
      case 'continue as new': {
        this.asked.length = 0; // a run continues when no answer is due
        const { inDoubt } = this.state;
        this.state = new QueueState(JSON.parse(JSON.stringify(this.state.view())) as QueueView);
        this.state.doubt(inDoubt);
        break;
      }
      case 'deliver drained': {
        const drained = take(this.drains);
        if (drained) this.state.drained(drained.slot, drained.runId);
        break;
      }
      case 'lose the queue': {
        for (const claim of this.claims) this.landClaim(claim);
        for (const { drain, runId } of this.permits.values()) if (drain) this.orphans.add(runId);
        for (const waiter of this.waiters.values()) if (waiter.fate === 'beside') waiter.fate = 'waits';
        this.claims.length = this.gone.length = this.probes.length = this.preempts.length = this.asked.length = 0;
        this.override = { pausedToMs: 0 };
        this.state = new QueueState();
        break;
      }
    }
  }

  private setOverride(change: { capacity?: number; paused?: boolean }): void {
    this.nowMs += 2; // operators and new runs of the queue take a moment, in which a pause may end
    const { capacity = this.override.capacity, paused = this.isPaused } = change;
    const pausedToMs = change.paused === undefined ? this.override.pausedToMs : paused ? Number.POSITIVE_INFINITY : 0;
    const temporary = change.capacity === undefined ? this.temporary : undefined;
    this.override = { capacity, pausedToMs, ...(temporary && { temporary }) };
    // The end of a pause is a change too, if the queue has not seen it yet.
    this.state.next(this.nowMs, 0);
    const { version } = this.state.setOverride({ slots: this.slots, ...change }, this.nowMs);
    assert.ok(version > this.version, 'versions grow');
    this.version = version;
    this.checkOverride();
  }

  private pauseUntil(untilMs: number): void {
    this.nowMs += 2;
    this.state.next(this.nowMs, 0);
    const before = this.state.overridden;
    const after = this.state.setOverride({ slots: this.slots, pauseUntilMs: untilMs }, this.nowMs);
    this.version = Math.max(this.version, after.version);
    if (untilMs > Math.max(this.override.pausedToMs, this.nowMs)) this.override.pausedToMs = untilMs;
    else if (before) assert.equal(after, before, 'a pause shortens no other, and one in the past is none');
    this.checkOverride();
  }

  private resizeUntil(capacity: number, untilMs: number): void {
    this.nowMs += 2;
    this.state.next(this.nowMs, 0);
    const order = { slots: this.slots, capacity, capacityUntilMs: untilMs };
    const { version } = this.state.setOverride(order, this.nowMs);
    this.version = Math.max(this.version, version);
    if (untilMs > this.nowMs) this.override = { ...this.override, temporary: { capacity, untilMs } };
    this.checkOverride();
  }

  private checkOverride(): void {
    const isSet = this.isPaused || this.temporary || (this.override.capacity ?? this.slots) !== this.slots;
    assert.equal(this.state.overridden !== undefined, Boolean(isSet));
    assert.equal(this.state.overridden?.capacity ?? this.slots, this.capacity);
    assert.equal(this.state.overridden?.paused ?? false, this.isPaused);
  }

  /** A capacity with an end, until then. */
  private get temporary(): Override['temporary'] {
    const { temporary } = this.override;
    return temporary && temporary.untilMs > this.nowMs ? temporary : undefined;
  }

  private get capacity(): number {
    return (this.temporary ?? this.override).capacity ?? this.slots;
  }

  private get isPaused(): boolean {
    return this.override.pausedToMs > this.nowMs;
  }

  private isInUse(slot: string): boolean {
    return !this.isPaused && Number(slot) < this.capacity;
  }

  private wants({ slots }: Ticket, slot: string): boolean {
    return wantsSlot(slots, slot) || (Number(slot) >= this.slots && this.isInUse(slot));
  }

  private landClaim(claim: { slot: string; landed?: { runId?: string } } | undefined): void {
    if (!claim || claim.landed) return;
    claim.landed = {};
    if (this.permits.has(claim.slot)) return;
    const runId = this.hold(claim.slot, true);
    this.permits.set(claim.slot, { runId, watched: true, drain: true });
    claim.landed = { runId };
  }

  private enqueue(pick: number): void {
    const ticket: Ticket = {
      id: `t${++this.made}`,
      waiter: { workflowId: `w${this.made}`, runId: 'r' },
      slots: 1 + (pick % this.slots),
      sinceMs: this.nowMs - (pick % 3),
      priorityKey: 1 + (pick % 3),
      // Each ticket is for one permit; an accumulator's says how many it wants in all.
      ...(pick % 5 < 2 ? { preempt: true } : pick % 5 === 2 && this.accumulation(pick >> 3)),
      ...(pick % 5 === 3 && { maxWaiting: 1 + ((pick >> 3) % 2) }),
      // Older or younger, whatever its priority.
      ...(pick % 5 === 3 &&
        (pick >> 4) % 3 > 0 && { whenFull: 'drop-oldest', sinceMs: this.nowMs - ((pick >> 6) % 3) }),
      ...(pick % 5 === 4 && ADMITTED),
    };
    const waiter: Waiter = { ticket, fate: 'waits' };
    this.waiters.set(ticket.id, waiter);
    this.lineUp(waiter);
  }

  /** What the ticket of an accumulator says, of which there is one at a time: the next for the one that is there, or a new one's. */
  private accumulation(pick: number): Partial<Ticket> | undefined {
    const last = [...this.waiters.values()].filter(({ ticket }) => ticket.permits).at(-1);
    if (last?.fate === 'waits' || last?.fate === 'beside') return undefined;
    const { permits = 1, kept = 0 } = last?.ticket ?? {};
    if (last?.fate === 'served' && kept + 1 < permits) return { permits, kept: kept + 1 };
    return { permits: 1 + (pick % this.slots), kept: 0, ...ADMITTED };
  }

  private lineUp(waiter: Waiter): void {
    if (waiter.fate === 'served') return;
    const isNew = !this.state.ticket(waiter.ticket.id);
    const isFull = isNew && this.state.waitingCount >= (waiter.ticket.maxWaiting ?? Number.POSITIVE_INFINITY);
    if (!this.state.enqueue(waiter.ticket, this.nowMs) && isFull) {
      waiter.fate = 'refused';
      return;
    }
    waiter.fate = this.state.ticket(waiter.ticket.id) ? 'waits' : 'beside';
    assert.equal(
      waiter.fate === 'waits',
      this.hasEnoughFor(waiter.ticket),
      'Q7: in line, or not, by how many it wants',
    );
  }

  private hasEnoughFor({ permits = 1 }: Ticket): boolean {
    return permits <= this.capacity;
  }

  /** Somebody of this priority waits for what admits callers to this line. */
  private inherit(priorityKey: number): void {
    const { tickets, slots } = this.state.view();
    const offered = slots.map(([, it]) => it.at === 'offered' && it.ticketId);
    for (const ticket of tickets) {
      const isOutranked = ticket.givesWay && priorityKey < (ticket.priorityKey ?? 3) && !offered.includes(ticket.id);
      if (isOutranked) this.outranked.add(ticket.id);
    }
    this.state.inherit(ADMISSION, priorityKey);
  }

  private giveUp(waiter: Waiter | undefined): void {
    if (waiter?.fate !== 'waits' && waiter?.fate !== 'beside') return;
    waiter.fate = 'gave up';
    this.state.declined(waiter.ticket.id);
  }

  /** @param pick says whether the holder gives way, and to which priorities */
  private hold(slot: string, watched: boolean, pick = 0): string {
    const runId = `run${String(++this.made).padStart(6, '0')}`;
    this.permits.set(slot, { runId, watched, preemptible: [undefined, 2, 3, 4][Math.abs(pick) % 4] });
    // Unseen, it may take the place of one that the queue still believes in, and then ends as silently.
    if (watched) this.silent.delete(slot);
    return runId;
  }

  private release(slot: string): void {
    const permit = this.permits.get(slot);
    if (permit?.watched) this.closings.push({ slot, runId: permit.runId });
    this.permits.delete(slot);
  }

  private deliverWatch(probe: { slot: string; held?: boolean; asks?: boolean } | undefined): void {
    if (!probe || probe.held !== undefined) return;
    const permit = this.permits.get(probe.slot);
    if (permit) permit.watched = true;
    probe.held = permit !== undefined;
    if (probe.asks) this.answer(probe.slot);
    if (permit?.drain) this.drains.push({ slot: probe.slot, runId: permit.runId });
  }

  private answer(slot: string): void {
    const permit = this.permits.get(slot);
    if (!permit?.preemptible) return;
    const { runId, preemptible: priorityKey, givesWay } = permit;
    this.answers.push({ slot, runId, priorityKey, graceMs: GRACE_MS, givesWay });
  }

  private takeTurn(slot: string, ticketId: string): void {
    const waiter = this.waiters.get(ticketId) ?? assert.fail('a turn for nobody');
    if (waiter.fate === 'dead') this.state.undeliverable(slot, ticketId);
    else if (waiter.fate !== 'waits') this.state.declined(ticketId);
    else if (this.permits.has(slot)) this.state.missed(waiter.ticket, slot);
    else {
      waiter.fate = 'served';
      this.hold(slot, true, waiter.ticket.sinceMs + this.made);
    }
  }

  private send(): void {
    while (this.sendSome() === this.room);
    assert.deepEqual([...this.outranked], [], 'Q8: nobody has told them to give way');
  }

  private sendSome(): number {
    const before = this.state.view();
    const [settled, doubted] = [this.settled(), this.state.inDoubt];
    const commands = this.state.next(this.nowMs, this.room);
    assert.ok(commands.length <= this.room, 'more than there is room for');
    for (const command of commands) {
      if (command.do === 'probe') {
        this.probes.push({ slot: command.slot, asks: command.asks });
        continue;
      }
      if (command.do === 'ask') {
        const permit = this.permits.get(command.slot);
        if (permit) permit.watched = true;
        this.answer(command.slot);
        continue;
      }
      if (command.do === 'preempt') {
        this.checkPreempt(command);
        this.preempts.push(command);
        continue;
      }
      if (command.do === 'drain') {
        assert.ok(!this.isInUse(command.slot), 'drained a slot that is in use');
        this.claims.push({ slot: command.slot });
        continue;
      }
      if (command.do === 'refuse') {
        const { ticket, superseded } = command;
        if (superseded || ticket.whenFull) this.checkDropped(ticket, settled);
        const isFull = superseded || this.state.waitingCount >= (ticket.maxWaiting ?? Number.POSITIVE_INFINITY);
        assert.ok(isFull || !this.hasEnoughFor(ticket), 'Q7: refused one that wants no more than are in use');
        const waiter = this.waiters.get(ticket.id) ?? assert.fail('refused nobody');
        if (waiter.fate === 'waits') waiter.fate = isFull ? 'refused' : 'beside';
        continue;
      }
      if (command.do === 'give-way') {
        const { id } = command.ticket;
        assert.ok(this.outranked.delete(id), 'Q8: nobody is better, or it has a turn');
        assert.equal(this.state.ticket(id), undefined);
        const waiter = this.waiters.get(id);
        if (waiter?.fate === 'waits') waiter.fate = 'beside';
        continue;
      }
      if (command.do === 'ask-waiter') {
        this.asked.push(command.ticket);
        continue;
      }
      if (command.do !== 'offer') {
        const { slot, runId } = command;
        assert.equal(this.isInUse(slot), command.do === 'release');
        if (this.permits.get(slot)?.runId !== runId) this.gone.push({ slot, runId });
        else if (command.do === 'release') this.release(slot);
        continue;
      }
      const { slot, ticket } = command;
      assert.ok(this.isInUse(slot), 'offered a slot that is out of use');
      assert.ok(!this.outranked.has(ticket.id), 'Q8: offered to one that is to give way');
      assert.ok(this.wants(ticket, slot), 'offered a slot that its waiter does not want');
      assert.ok(this.hasEnoughFor(ticket), 'Q7: offered one of more permits than are in use');
      this.checkFirst(before, slot, ticket);
      for (const { id } of [ticket, ...(command.also ?? [])]) this.turns.push({ slot, ticketId: id });
    }
    this.checkRoom(settled, doubted);
    return commands.length;
  }

  /** The tickets without a turn, but for those that may have to leave for want of room. */
  private settled(): Ticket[] {
    const { tickets, slots } = this.state.view();
    const offered = new Set(slots.map(([, state]) => state.at === 'offered' && state.ticketId));
    const inDoubt = new Set(this.state.inDoubt);
    return tickets.filter(({ id }) => !offered.has(id) && !inDoubt.has(id));
  }

  /** Q9: of those that could be dropped and stay, none is of a lower priority, or as low and older. */
  private checkDropped(dropped: Ticket, settledBefore: readonly Ticket[]): void {
    assert.equal(dropped.whenFull, 'drop-oldest', 'Q9: dropped one that does not say so');
    const now = new Set(this.settled().map(({ id }) => id));
    for (const other of settledBefore) {
      if (!other.whenFull || !now.has(other.id)) continue;
      assert.ok(byDropping(dropped, other) <= 0, `Q9: ${dropped.id} was dropped before ${other.id}`);
    }
  }

  /** Q9: a ticket that is no longer in doubt has room beside those that were there before, unless none of them can be dropped before it. */
  private checkRoom(settledBefore: readonly Ticket[], doubted: readonly string[]): void {
    const now = this.settled();
    const before = new Set(settledBefore.map(({ id }) => id));
    const stay = now.filter(({ id }) => before.has(id));
    for (const ticket of now) {
      if (!ticket.whenFull || !doubted.includes(ticket.id)) continue;
      const { maxWaiting = 0 } = ticket;
      const droppable = stay.filter((other) => other.whenFull && byDropping(other, ticket) < 0);
      assert.ok(stay.length < maxWaiting || droppable.length === 0, `Q9: ${ticket.id} makes the line too long`);
    }
  }

  /** Nobody who was waiting for this slot, and got nothing now, comes before who got it. */
  private checkFirst(before: QueueView, slot: string, offered: Ticket): void {
    const offeredNow = new Set(this.state.view().slots.map(([, now]) => now.at === 'offered' && now.ticketId));
    for (const other of before.tickets) {
      if (offeredNow.has(other.id) || !this.wants(other, slot)) continue;
      if (!this.state.view().tickets.includes(other)) continue; // its own turn was overdue just now
      const byKept = Number(!other.kept) - Number(!offered.kept);
      const byPriority = byKept || (other.priorityKey ?? 3) - (offered.priorityKey ?? 3);
      const byListing = before.tickets.indexOf(other) - before.tickets.indexOf(offered);
      const late = byPriority || other.sinceMs - offered.sinceMs || byListing;
      assert.ok(late >= 0, `${offered.id} overtook ${other.id}`);
    }
  }

  /** Q4 and Q5, on what the queue knew when it gave the command. */
  private checkPreempt({ slot, runId, priorityKey }: QueueCommand & { do: 'preempt' }): void {
    const asking = this.asking();
    const asks = asking.filter((ticket) => ticket.priorityKey === priorityKey && this.takes(ticket, slot));
    assert.ok(asks.length > 0, 'Q4: nobody of that priority asks');
    const known = this.state.view().slots.flatMap(([name, state]) => {
      const holder = 'holder' in state ? state.holder : undefined;
      return holder ? [{ slot: name, ...holder }] : [];
    });
    const asked = known.find((it) => it.slot === slot);
    assert.ok(asked?.runId === runId && asked.priorityKey > priorityKey, 'Q4: not of a lower priority');
    // The command does not say which of the waiters of that priority it is for. They may want different slots.
    const isLowestFor = (ticket: Ticket) =>
      known.every((it) => {
        return it.untilMs !== undefined || !this.takes(ticket, it.slot) || it.priorityKey <= asked.priorityKey;
      });
    assert.ok(asks.some(isLowestFor), `Q4: another holder is of a lower priority than that of ${slot}`);
    const wantedByAll = known.filter(
      (it) => it.untilMs !== undefined && asking.every((ticket) => this.takes(ticket, it.slot)),
    );
    assert.ok(wantedByAll.length <= asking.length, 'Q5: more holders give way than waiters ask');
  }

  private takes(ticket: Ticket, slot: string): boolean {
    return this.isInUse(slot) && this.wants(ticket, slot);
  }

  /** The tickets that ask for a holder to give way, and have no turn. */
  private asking(): Ticket[] {
    const { tickets, slots } = this.state.view();
    const offered = new Set(slots.map(([, state]) => state.at === 'offered' && state.ticketId));
    return tickets.filter(({ id, preempt }) => preempt && !offered.has(id));
  }

  /** Q6: of those that ask for a holder to give way, one to which nobody gives way although somebody should. */
  private unheeded(): string | undefined {
    const held = [...this.permits].map(([slot, permit]) => ({ slot, ...permit }));
    for (const ticket of this.asking()) {
      const wanted = held.filter(({ slot, watched }) => watched && this.takes(ticket, slot));
      const should = wanted.some(({ preemptible = 0 }) => preemptible > (ticket.priorityKey ?? 3));
      // Another waiter that asks may have the one that gives way; but then each has one.
      if (should && !wanted.some(({ givesWay }) => givesWay)) return ticket.id;
    }
    return undefined;
  }

  /** Whether the queue believes in a holder that is gone, or that gives way and does not. */
  private believesInVain(): boolean {
    return this.state.view().slots.some(([slot, state]) => {
      const holder = 'holder' in state ? state.holder : undefined;
      const permit = this.permits.get(slot);
      if (holder && permit?.runId !== holder.runId) return true;
      return holder?.untilMs !== undefined && holder.untilMs > this.nowMs && !permit?.givesWay;
    });
  }

  private check(): void {
    const { tickets, slots } = this.state.view();
    this.checkOverride();
    if (this.isPaused) assert.ok(this.state.dueMs() <= this.override.pausedToMs, 'nothing wakes the queue to resume');
    const { untilMs = Number.POSITIVE_INFINITY } = this.temporary ?? {};
    assert.ok(this.state.dueMs() <= untilMs, 'nothing wakes the queue to end a capacity');
    const offered = slots.flatMap(([, state]) => (state.at === 'offered' && !state.reserved ? [state.ticketId] : []));
    assert.equal(new Set(offered).size, offered.length, 'one ticket has two turns');
    for (const [slot, state] of slots) {
      if (state.at !== 'offered' || !state.reserved || offered.includes(state.ticketId)) continue;
      const isInLine = tickets.some(({ id }) => id === state.ticketId);
      assert.ok(!isInLine, `slot ${slot} is reserved for ${state.ticketId}, which waits without a turn`);
    }
    const known = new Map(slots);
    for (const ticket of tickets) {
      if (offered.includes(ticket.id)) continue;
      for (const slot of slotNames(this.slots + 2)) {
        if (!this.isInUse(slot) || !this.wants(ticket, slot)) continue;
        const at = known.get(slot)?.at;
        assert.ok(
          at === 'probing' || at === 'held' || at === 'offered' || at === 'draining',
          `slot ${slot} idles as ${at}, wanted by ${ticket.id}`,
        );
      }
    }
    for (const slot of this.state.overridden ? slotNames(this.slots) : []) {
      const at = known.get(slot)?.at;
      assert.ok(this.isInUse(slot) || (at && at !== 'free'), `slot ${slot} is out of use, and nobody asks for it`);
    }
    for (const [slot, { at }] of slots) {
      assert.ok(at !== 'free', `slot ${slot} is kept as free, and nobody wants it`);
      assert.ok(!(at === 'drained' && this.isInUse(slot)), `slot ${slot} is in use and drained`);
      if (at === 'draining') {
        assert.ok(
          this.claims.some((claim) => claim.slot === slot),
          `no claim of ${slot} is under way`,
        );
      }
      if (at === 'probing')
        assert.ok(
          this.probes.some((probe) => probe.slot === slot),
          `no probe of ${slot} is under way`,
        );
    }
  }
}

/** The runs are the same each time. `QUEUE_MODEL_SEED` and `QUEUE_MODEL_RUNS` look for more. */
const seed = Number(process.env.QUEUE_MODEL_SEED ?? 1);
const numRuns = Number(process.env.QUEUE_MODEL_RUNS ?? 500);

test('whatever happens, no wanted slot idles, nobody overtakes, and all who live are served', () => {
  const move = fc.record({ kind: fc.constantFrom(...KINDS), pick: fc.nat(10_000) });
  const moves = fc.array(move, { maxLength: 120, size: 'max' });
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 4 }),
      fc.constantFrom(1, 2, Number.POSITIVE_INFINITY),
      moves,
      (slots, room, moves) => {
        const world = new World(slots, room);
        for (const next of moves) world.make(next);
        world.calmDown();
        world.settle();
        world.end();
      },
    ),
    { numRuns, seed, includeErrorInReport: true },
  );
});

/** Q9: the lowest priority is dropped first, and of equals the oldest. */
function byDropping(a: Ticket, b: Ticket): number {
  return (b.priorityKey ?? 3) - (a.priorityKey ?? 3) || a.sinceMs - b.sinceMs;
}
