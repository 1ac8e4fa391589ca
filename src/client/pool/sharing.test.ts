import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LineEntry } from './caller-line';
import type { Place } from './growth';
import { type PoolCommand, PoolState } from './pool-state';

// Several pools and plain acquirers share the slots of one resource, on a clock of their own. The delays are those of a real
// server on two busy cores.
const CLAIM_MS = 15;
const LOOK_MS = 15;
const RELEASE_MS = 40;
const TURN_MS = 60;

const REUSE_MS = 1_000;
const CALL_MS = 100;

interface Permit {
  slot: string;
}

/** Somebody in line. `nth`: 0 for an acquirer of one permit. */
interface Ticket {
  owner: object;
  nth: number;
  turn: (slot: string) => void;
}

/** The server and the queue: slots are given in the order of the line. */
class Server {
  nowMs = 0;
  /** Slots that were in use, summed over time. */
  usedMs = 0;
  readonly line: Ticket[] = [];
  private readonly free: string[];
  private readonly events: { atMs: number; run: () => void }[] = [];

  constructor(capacity: number) {
    this.free = Array.from({ length: capacity }, (_, slot) => String(slot));
  }

  after(ms: number, run: () => void): void {
    const event = { atMs: this.nowMs + ms, run };
    const at = this.events.findIndex(({ atMs }) => atMs > event.atMs);
    this.events.splice(at < 0 ? this.events.length : at, 0, event);
  }

  runUntil(endMs: number): void {
    for (let next = this.events[0]; next && next.atMs <= endMs; next = this.events[0]) {
      this.events.shift();
      this.nowMs = next.atMs;
      next.run();
    }
  }

  claim(): string | undefined {
    return this.free.shift();
  }

  release(slot: string): void {
    this.free.push(slot);
    this.hand();
  }

  lineUp(ticket: Ticket): void {
    this.line.push(ticket);
    this.hand();
  }

  private hand(): void {
    while (this.line.length > 0 && this.free.length > 0) {
      const slot = this.free.shift() as string;
      const ticket = this.line.shift();
      this.after(TURN_MS, () => ticket?.turn(slot));
    }
  }
}

class Caller extends LineEntry {
  constructor(readonly sinceMs: number) {
    super(3, Number.POSITIVE_INFINITY);
  }
}

/** A process whose callers call one after the other, with a pause between. */
class Pool {
  calls = 0;
  readonly waits: number[] = [];
  private readonly tickets = new Map<Place, Ticket>();
  private readonly state: PoolState<Caller, Permit>;
  private timerMs = Number.POSITIVE_INFINITY;

  constructor(
    private readonly server: Server,
    capacity: number,
    callers: number,
    private readonly pauseMs = 0,
  ) {
    const rules = { max: capacity, reuseForMs: REUSE_MS, idleForMs: 200, retireAfterMs: Number.POSITIVE_INFINITY };
    this.state = new PoolState(rules, () => true);
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
      server.usedMs += CALL_MS;
      this.later(CALL_MS, () => {
        this.calls++;
        state.finished(held, server.nowMs);
        if (this.pauseMs === 0) state.enqueue(new Caller(server.nowMs));
        else this.later(this.pauseMs, () => state.enqueue(new Caller(server.nowMs)));
      });
    } else if (command.do === 'try') {
      for (let n = 0; n < command.count; n++) {
        this.later(CLAIM_MS, () => {
          const slot = server.claim();
          if (slot !== undefined) state.acquired({ slot }, server.nowMs);
        });
      }
      this.later(CLAIM_MS, () => state.tried(server.nowMs));
    } else if (command.do === 'line-up') {
      const { place } = command;
      const turn = (slot: string) => {
        this.tickets.delete(place);
        state.acquired({ slot }, server.nowMs, place);
        this.step();
      };
      const ticket: Ticket = { owner: this, nth: place.nth, turn };
      this.tickets.set(place, ticket);
      server.lineUp(ticket);
    } else if (command.do === 'leave') {
      const ticket = this.tickets.get(command.place);
      const at = ticket ? server.line.indexOf(ticket) : -1;
      if (at >= 0) {
        server.line.splice(at, 1);
        state.left(command.place, server.nowMs);
      }
    } else if (command.do === 'look') {
      this.later(LOOK_MS, () => {
        const shares = server.line.filter(({ owner }) => owner !== this).map(({ nth }) => nth);
        state.looked({ shares, isInUse: () => true }, server.nowMs);
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

/** Pools that begin 50 ms apart, so that the first one has taken all. @returns their calls in the time after the first second */
function share(capacity: number, pools: number, seconds: number) {
  const server = new Server(capacity);
  const made: Pool[] = [];
  for (let n = 0; n < pools; n++) server.after(50 * n, () => made.push(new Pool(server, capacity, 200)));
  server.runUntil(seconds * 1_000);
  const calls = made.map((pool) => pool.calls);
  const sum = calls.reduce((a, b) => a + b);
  return { least: Math.min(...calls) / sum, used: server.usedMs / (capacity * seconds * 1_000) };
}

for (const [capacity, pools, least, used] of [
  [4, 2, 0.4, 0.95],
  [10, 2, 0.4, 0.95],
  [3, 2, 0.4, 0.9],
  [1, 2, 0.4, 0.85],
  [4, 3, 0.25, 0.85],
  [2, 5, 0.1, 0.8],
] as const) {
  test(`${pools} busy pools on ${capacity} slots for 30 s: each has its share, and few moments are lost`, () => {
    const seen = share(capacity, pools, 30);
    assert.ok(seen.least >= least, `the least share is ${seen.least}`);
    assert.ok(seen.used >= used, `in use ${seen.used}`);
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
      const turn = (slot: string) => {
        waits.push(server.nowMs - sinceMs);
        server.after(CALL_MS, () => server.release(slot));
      };
      server.lineUp({ owner: {}, nth: 0, turn });
    });
  }
  server.runUntil(70_000);
  assert.equal(waits.length, 40);
  assert.ok(Math.max(...waits) < 2 * REUSE_MS, `${waits}`);
});
