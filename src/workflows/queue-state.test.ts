import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { QueueView, Ticket } from '../shared/protocol';
import { slotNames, wantsSlot } from '../shared/slots';
import { MAX_WAITERS, OFFER_TIMEOUT_MS, QueueState } from './queue-state';

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
] as const;

interface Waiter {
  ticket: Ticket;
  fate: 'waits' | 'served' | 'gave up' | 'dead';
}

/**
 * A world around one queue: permits that are held or not, and messages on their way, in any order and as late as chance
 * will have it. What the queue believes may be wrong; the world knows.
 */
class World {
  private state = new QueueState();
  private nowMs = 0;
  private made = 0;
  private readonly waiters = new Map<string, Waiter>();
  private readonly permits = new Map<string, { runId: string; watched: boolean }>();
  /** A probe's watch reaches a permit or none; its answer comes back later. */
  private readonly probes: { slot: string; held?: boolean }[] = [];
  /** Slots whose permit was terminated, so that the queue could not hear of it. */
  private readonly silent = new Set<string>();
  private readonly turns: { slot: string; ticketId: string }[] = [];
  private readonly closings: { slot: string; runId: string }[] = [];

  constructor(private readonly slots: number) {}

  make(move: Move): void {
    this.act(move);
    this.send();
    this.check();
  }

  /** Every message arrives, and no time goes by: then no slot is free that somebody in line would take. */
  calmDown(): void {
    this.send();
    while (this.closings.length + this.probes.length + this.turns.length > 0) {
      this.deliverAll();
      this.send();
      this.check();
    }
    for (const { fate, ticket } of this.waiters.values()) {
      if (fate !== 'waits' || !this.state.view().tickets.includes(ticket)) continue;
      for (const slot of slotNames(ticket.slots)) {
        assert.ok(
          this.permits.has(slot) || this.silent.has(slot),
          `slot ${slot} idles while ${ticket.id} waits for it`,
        );
      }
    }
  }

  /** Then everyone releases, and time goes by: all who live and wait must be served. */
  settle(): void {
    for (let round = 0; round < 10_000; round++) {
      const left = [...this.waiters.values()].filter(({ fate }) => fate === 'waits');
      if (left.length === 0) return;
      for (const slot of this.permits.keys()) this.release(slot);
      this.deliverAll();
      for (const { ticket } of left) this.state.enqueue(ticket); // as the fallback timer does
      if (this.state.dueMs() < Number.POSITIVE_INFINITY) this.nowMs = Math.max(this.nowMs, this.state.dueMs());
      this.send();
      this.check();
    }
    assert.fail(`never served: ${JSON.stringify(this.state.view())}`);
  }

  private deliverAll(): void {
    while (this.closings.length) this.act({ kind: 'deliver closing', pick: 0 });
    while (this.probes.length) this.act({ kind: 'answer probe', pick: 0 });
    while (this.turns.length) this.act({ kind: 'take turn', pick: 0 });
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
        if (waiter?.fate === 'waits') this.state.enqueue(waiter.ticket);
        break;
      }
      case 'barge': {
        const slot = of(slotNames(this.slots));
        if (slot && !this.permits.has(slot)) this.hold(slot, false);
        break;
      }
      case 'release': {
        const slot = of([...this.permits.keys()]);
        if (slot) this.release(slot);
        break;
      }
      case 'terminate': {
        const slot = of([...this.permits.keys()]);
        if (slot && this.permits.delete(slot)) this.silent.add(slot);
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
        if (closing) this.state.closing(closing.slot, closing.runId);
        break;
      }
      case 'wait':
        this.nowMs += (pick * 97) % 70_000;
        break;
      case 'continue as new':
        this.state = new QueueState(JSON.parse(JSON.stringify(this.state.view())) as QueueView);
        break;
    }
  }

  private enqueue(pick: number): void {
    const ticket: Ticket = {
      id: `t${++this.made}`,
      waiter: { workflowId: 'w', runId: 'r' },
      slots: 1 + (pick % this.slots),
      sinceMs: this.nowMs - (pick % 3),
      priorityKey: 1 + (pick % 3),
    };
    this.waiters.set(ticket.id, { ticket, fate: 'waits' });
    this.state.enqueue(ticket);
  }

  private giveUp(waiter: Waiter | undefined): void {
    if (waiter?.fate !== 'waits') return;
    waiter.fate = 'gave up';
    this.state.declined(waiter.ticket.id);
  }

  private hold(slot: string, watched: boolean): void {
    this.permits.set(slot, { runId: `run${++this.made}`, watched });
    // Unseen, it may take the place of one that the queue still believes in, and then ends as silently.
    if (watched) this.silent.delete(slot);
  }

  private release(slot: string): void {
    const permit = this.permits.get(slot);
    if (permit?.watched) this.closings.push({ slot, runId: permit.runId });
    this.permits.delete(slot);
  }

  private deliverWatch(probe: { slot: string; held?: boolean } | undefined): void {
    if (!probe || probe.held !== undefined) return;
    const permit = this.permits.get(probe.slot);
    if (permit) permit.watched = true;
    probe.held = permit !== undefined;
  }

  private takeTurn(slot: string, ticketId: string): void {
    const waiter = this.waiters.get(ticketId) ?? assert.fail('a turn for nobody');
    if (waiter.fate === 'dead') this.state.undeliverable(slot, ticketId);
    else if (waiter.fate !== 'waits') this.state.declined(ticketId);
    else if (this.permits.has(slot)) this.state.missed(waiter.ticket, slot);
    else {
      waiter.fate = 'served';
      this.hold(slot, true);
    }
  }

  private send(): void {
    const before = this.state.view();
    for (const command of this.state.next(this.nowMs)) {
      if (command.do === 'probe') {
        this.probes.push({ slot: command.slot });
        continue;
      }
      const { slot, ticket } = command;
      assert.ok(wantsSlot(ticket.slots, slot), 'offered a slot that its waiter does not want');
      this.checkFirst(before, slot, ticket);
      this.turns.push({ slot, ticketId: ticket.id });
    }
  }

  /** Nobody who was waiting for this slot, and got nothing now, comes before who got it. */
  private checkFirst(before: QueueView, slot: string, offered: Ticket): void {
    const offeredNow = new Set(this.state.view().slots.map(([, now]) => now.at === 'offered' && now.ticketId));
    for (const other of before.tickets) {
      if (offeredNow.has(other.id) || !wantsSlot(other.slots, slot)) continue;
      if (!this.state.view().tickets.includes(other)) continue; // its own turn was overdue just now
      const byPriority = (other.priorityKey ?? 3) - (offered.priorityKey ?? 3);
      const byListing = before.tickets.indexOf(other) - before.tickets.indexOf(offered);
      const late = byPriority || other.sinceMs - offered.sinceMs || byListing;
      assert.ok(late >= 0, `${offered.id} overtook ${other.id}`);
    }
  }

  private check(): void {
    const { tickets, slots } = this.state.view();
    const offered = slots.flatMap(([, state]) => (state.at === 'offered' ? [state.ticketId] : []));
    assert.equal(new Set(offered).size, offered.length, 'one ticket has two turns');
    const known = new Map(slots);
    for (const ticket of tickets) {
      if (offered.includes(ticket.id)) continue;
      for (const slot of slotNames(ticket.slots)) {
        const at = known.get(slot)?.at;
        assert.ok(
          at === 'probing' || at === 'held' || at === 'offered',
          `slot ${slot} idles as ${at}, wanted by ${ticket.id}`,
        );
      }
    }
    for (const [slot, state] of slots) {
      if (state.at === 'probing')
        assert.ok(
          this.probes.some((probe) => probe.slot === slot),
          `no probe of ${slot} is under way`,
        );
    }
  }
}

test('whatever happens, no wanted slot idles, nobody overtakes, and all who live are served', () => {
  const move = fc.record({ kind: fc.constantFrom(...KINDS), pick: fc.nat(10_000) });
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 4 }), fc.array(move, { maxLength: 120, size: 'max' }), (slots, moves) => {
      const world = new World(slots);
      for (const next of moves) world.make(next);
      world.calmDown();
      world.settle();
    }),
    { numRuns: 2_000 },
  );
});

function ticket(id: string, fields: Partial<Ticket> = {}): Ticket {
  return { id, waiter: { workflowId: id, runId: 'r' }, slots: 1, sinceMs: 0, ...fields };
}

/** A queue of capacity 1 in which `first` has its turn and the others wait. */
function offeredTo(first: Ticket, ...others: Ticket[]): QueueState {
  const state = new QueueState();
  for (const one of [first, ...others]) state.enqueue(one);
  assert.deepEqual(state.next(0), [{ do: 'probe', slot: '0' }]);
  state.probed('0', false, 0);
  assert.deepEqual(state.next(0), [{ do: 'offer', slot: '0', ticket: first }]);
  assert.deepEqual(state.next(0), []);
  return state;
}

test('a waiter that was beaten keeps its place', () => {
  const [a, b] = [ticket('a'), ticket('b')];
  const state = offeredTo(a, b);
  state.missed(a, '0');
  assert.deepEqual(state.next(0), [{ do: 'probe', slot: '0' }]);
  state.probed('0', true, 0);
  state.closing('0', 'thief');
  assert.deepEqual(state.next(0), [{ do: 'offer', slot: '0', ticket: a }]);
});

test('a declined turn, and one for a waiter that is gone, go to the next at once', () => {
  const [a, b, c] = [ticket('a'), ticket('b'), ticket('c')];
  const state = offeredTo(a, b, c);
  state.declined('a');
  assert.deepEqual(state.next(0), [{ do: 'offer', slot: '0', ticket: b }]);
  state.undeliverable('0', 'b');
  assert.deepEqual(state.next(0), [{ do: 'offer', slot: '0', ticket: c }]);
});

test('an overdue turn goes to the next after a probe', () => {
  const [a, b] = [ticket('a'), ticket('b')];
  const state = offeredTo(a, b);
  assert.equal(state.dueMs(), OFFER_TIMEOUT_MS);
  assert.deepEqual(state.next(OFFER_TIMEOUT_MS - 1), []);
  assert.deepEqual(state.next(OFFER_TIMEOUT_MS), [{ do: 'probe', slot: '0', overdue: true }]);
  state.probed('0', false, OFFER_TIMEOUT_MS);
  assert.deepEqual(state.next(OFFER_TIMEOUT_MS), [{ do: 'offer', slot: '0', ticket: b }]);
});

test('a closing that overtakes the answer to a probe is not forgotten', () => {
  const state = new QueueState();
  state.enqueue(ticket('a'));
  state.next(0);
  state.closing('0', 'r1');
  state.probed('0', true, 0);
  assert.equal(state.next(0)[0]?.do, 'offer');
});

test('a permit that says twice that it closes is heard once', () => {
  const [a, b] = [ticket('a'), ticket('b')];
  const state = new QueueState();
  for (const one of [a, b]) state.enqueue(one);
  state.next(0);
  state.probed('0', true, 0);
  state.closing('0', 'r1');
  assert.deepEqual(state.next(0), [{ do: 'offer', slot: '0', ticket: a }]);
  state.closing('0', 'r1');
  assert.deepEqual(state.next(0), []);
});

test('held slots are probed ever more rarely, at most once a minute, and only while somebody waits', () => {
  const state = new QueueState();
  state.enqueue(ticket('a'));
  state.next(0);
  state.probed('0', true, 0);
  const dayMs = 24 * 3_600_000;
  let probes = 0;
  for (let nowMs = state.dueMs(); nowMs < dayMs; nowMs = state.dueMs(), probes++) {
    assert.deepEqual(state.next(nowMs), [{ do: 'probe', slot: '0' }]);
    state.probed('0', true, nowMs);
  }
  assert.ok(probes > 1_440 && probes < 1_500, `${probes} probes a day`);
  state.declined('a');
  assert.equal(state.dueMs(), Number.POSITIVE_INFINITY);
  assert.deepEqual(state.next(dayMs * 2), []);
});

test('a full queue takes no more', () => {
  const state = new QueueState();
  for (let n = 0; n < MAX_WAITERS; n++) assert.equal(state.enqueue(ticket(`t${n}`)), true);
  assert.equal(state.enqueue(ticket('one more')), false);
  assert.equal(state.enqueue(ticket('t0')), true, 'who is in may say so again');
});
