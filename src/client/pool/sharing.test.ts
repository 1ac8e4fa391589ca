import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Ticket as SentTicket } from '../../shared/protocol';
import { TurnOrder } from '../../shared/turn-order';
import { LineEntry } from './caller-line';
import type { Place } from './pool-sizing';
import { type PoolCommand, PoolState } from './pool-state';

// Several pools and plain acquirers share the slots of one resource, on a clock of their own. The delays are those of a real
// server on two busy cores, each up to 20 % more or less.
const CLAIM_MS = 15;
const LOOK_MS = 15;
const RELEASE_MS = 40;
const TURN_MS = 60;

const REUSE_MS = 1_000;
const CALL_MS = 100;

interface Permit {
  slot: string;
}

/** Somebody in line. */
interface Ticket extends SentTicket {
  turn: (slot: string) => void;
}

/** The server and the queue. */
class Server {
  nowMs = 0;
  /** Slots that were in use, summed over time. */
  usedMs = 0;
  handOvers = 0;
  readonly line: Ticket[] = [];
  private readonly order = new TurnOrder();
  private readonly free: string[];
  private readonly events: { atMs: number; run: () => void }[] = [];
  private names = 0;
  private lot = 7;

  constructor(capacity: number) {
    this.free = Array.from({ length: capacity }, (_, slot) => String(slot));
  }

  /** The same in each run. */
  name(): string {
    return `name-${this.names++}`;
  }

  after(ms: number, run: () => void): void {
    this.lot = (this.lot * 1_103_515_245 + 12_345) % 2 ** 31;
    const event = { atMs: this.nowMs + ms * (0.8 + (0.4 * this.lot) / 2 ** 31), run };
    const at = this.events.findIndex(({ atMs }) => atMs > event.atMs);
    this.events.splice(at < 0 ? this.events.length : at, 0, event);
  }

  runUntil(endMs: number): void {
    for (let next = this.events[0]; next && next.atMs <= endMs; next = this.events[0]) {
      this.events.shift();
      this.nowMs = next.atMs;
      next.run();
    }
    this.nowMs = endMs;
  }

  claim(): string | undefined {
    return this.free.shift();
  }

  release(slot: string): void {
    this.handOvers++;
    this.free.push(slot);
    this.hand();
  }

  lineUp(turn: Ticket['turn'], pool?: Ticket['pool']): Ticket {
    const waiter = { workflowId: 'waiter', runId: 'run' };
    const ticket = { id: this.name(), waiter, slots: 1, sinceMs: this.nowMs, pool, turn };
    this.line.push(ticket);
    this.hand();
    return ticket;
  }

  private hand(): void {
    while (this.line.length > 0 && this.free.length > 0) {
      const slot = this.free.shift() as string;
      const ticket = this.order.first(this.line) as Ticket;
      this.line.splice(this.line.indexOf(ticket), 1);
      this.after(TURN_MS, () => ticket.turn(slot));
    }
  }
}

class Caller extends LineEntry {
  constructor(sinceMs: number) {
    super(3, Number.POSITIVE_INFINITY, sinceMs);
  }
}

/** A process whose callers call one after the other, with a pause between. */
class Pool {
  calls = 0;
  readonly waits: number[] = [];
  private readonly id: string;
  private readonly tickets = new Map<Place, Ticket>();
  private readonly state: PoolState<Caller, Permit>;
  private timerMs = Number.POSITIVE_INFINITY;

  constructor(
    private readonly server: Server,
    capacity: number,
    callers: number,
    private readonly pauseMs = 0,
  ) {
    this.id = server.name();
    const times = { reuseForMs: REUSE_MS, idleForMs: 200, retireAfterMs: Number.POSITIVE_INFINITY };
    this.state = new PoolState({ id: this.id, max: capacity, ...times }, () => true);
    for (let n = 0; n < callers; n++) this.state.enqueue(new Caller(server.nowMs));
    this.step();
  }

  private step(): void {
    const { nowMs } = this.server;
    for (const command of this.state.next(nowMs)) this.carryOut(command);
    const dueMs = this.state.dueMs();
    if (dueMs < this.timerMs) {
      this.timerMs = dueMs;
      this.server.after(dueMs - nowMs, () => {
        this.timerMs = Number.POSITIVE_INFINITY;
        this.step();
      });
    }
  }

  private later(ms: number, run: () => void): void {
    this.server.after(ms, () => {
      run();
      this.step();
    });
  }

  private carryOut(command: PoolCommand<Caller, Permit>): void {
    const { server, state } = this;
    if (command.do === 'serve') {
      const { caller, held } = command;
      this.waits.push(server.nowMs - caller.sinceMs);
      const fromMs = server.nowMs;
      this.later(CALL_MS, () => {
        server.usedMs += server.nowMs - fromMs;
        this.calls++;
        state.finished(held, server.nowMs);
        if (this.pauseMs === 0) state.enqueue(new Caller(server.nowMs));
        else this.later(this.pauseMs, () => state.enqueue(new Caller(server.nowMs)));
      });
    } else if (command.do === 'try') {
      for (let n = 0; n < command.count; n++) {
        this.later(0.8 * CLAIM_MS, () => {
          const slot = server.claim();
          if (slot !== undefined) state.acquired({ slot }, server.nowMs);
        });
      }
      this.later(1.3 * CLAIM_MS, () => state.tried(server.nowMs));
    } else if (command.do === 'line-up') {
      const { place } = command;
      const turn = (slot: string) => {
        this.tickets.delete(place);
        state.acquired({ slot }, server.nowMs, place);
        this.step();
      };
      this.tickets.set(place, server.lineUp(turn, { id: this.id, nth: place.nth }));
    } else if (command.do === 'leave') {
      const ticket = this.tickets.get(command.place);
      const at = ticket ? server.line.indexOf(ticket) : -1;
      if (at >= 0) {
        server.line.splice(at, 1);
        state.left(command.place, server.nowMs);
      }
    } else if (command.do === 'look') {
      this.later(LOOK_MS, () => {
        const tickets = server.line.filter(({ pool }) => pool?.id !== this.id);
        state.looked({ tickets, isInUse: () => true }, server.nowMs);
      });
    } else if (command.do === 'release') {
      const { held } = command;
      this.later(RELEASE_MS, () => {
        server.release(held.permit.slot);
        state.ended(held);
      });
    }
  }
}

/** Pools that begin 50 ms apart, so that the first one has taken all. @returns what they do once they have shared: from half the time on */
function share(pools: number, capacity: number, seconds: number) {
  const server = new Server(capacity);
  const made: Pool[] = [];
  for (let n = 0; n < pools; n++) server.after(50 * n, () => made.push(new Pool(server, capacity, 200)));
  server.runUntil(seconds * 500);
  const { usedMs, handOvers } = server;
  const before = made.map(({ calls }) => calls);
  server.runUntil(seconds * 1_000);
  const calls = made.map((pool, n) => pool.calls - (before[n] ?? 0));
  const sum = calls.reduce((a, b) => a + b);
  return {
    least: (Math.min(...calls) / sum) * pools,
    used: (server.usedMs - usedMs) / (capacity * seconds * 500),
    handOvers: server.handOvers - handOvers,
  };
}

for (const [pools, capacity] of [
  [2, 4],
  [4, 4],
  [2, 10],
  [10, 10],
  [10, 20],
  [50, 100],
] as const) {
  test(`${pools} busy pools on ${capacity} slots: each has its share within 15 s, and from then on none is handed over`, () => {
    const seen = share(pools, capacity, 30);
    assert.equal(seen.handOvers, 0);
    assert.ok(seen.least > 0.95 && seen.used > 0.99, JSON.stringify(seen));
  });
}

for (const [pools, capacity, goRound] of [
  [2, 1, 1],
  [2, 3, 1],
  [3, 10, 1],
  [4, 10, 2],
  [7, 10, 3],
  [20, 10, 10],
] as const) {
  test(`${pools} busy pools on ${capacity} slots: ${goRound} of them go round, each once in 2 × reuseFor`, () => {
    const seen = share(pools, capacity, 60);
    assert.ok(seen.handOvers <= (goRound * 30_000) / (2 * REUSE_MS), JSON.stringify(seen));
    assert.ok(seen.least > 0.85 && seen.used > 0.95, JSON.stringify(seen));
  });
}

test('one caller beside a pool of a thousand: 95 % of its waits are below 2 × reuseFor', () => {
  const server = new Server(4);
  new Pool(server, 4, 1_000);
  server.runUntil(3_000);
  const one = new Pool(server, 4, 1, 500);
  server.runUntil(120_000);
  const waits = one.waits.sort((a, b) => a - b);
  assert.ok(waits.length > 40, `${waits.length}`);
  assert.ok((waits[Math.floor(0.95 * waits.length)] ?? 0) < 2 * REUSE_MS, `${waits}`);
});

test('acquirers of one permit beside a pool that is always busy: none waits much longer than reuseFor', () => {
  const server = new Server(3);
  new Pool(server, 3, 100);
  server.runUntil(5_000);
  const waits: number[] = [];
  for (let n = 0; n < 40; n++) {
    server.after(n * 1_300, () => {
      const sinceMs = server.nowMs;
      server.lineUp((slot) => {
        waits.push(server.nowMs - sinceMs);
        server.after(CALL_MS, () => server.release(slot));
      });
    });
  }
  server.runUntil(90_000);
  assert.equal(waits.length, 40);
  assert.ok(Math.max(...waits) < 2 * REUSE_MS, `${waits}`);
});
