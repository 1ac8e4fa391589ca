import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { LineEntry } from './caller-line';
import type { Place } from './pool-sizing';
import { type Held, PoolState } from './pool-state';

const MAX = 3;
/** Where an operator has added slots. */
const MAY_GROW_TO = 5;
const REUSE_MS = 1_000;
const IDLE_MS = 200;

class Caller extends LineEntry {
  /** How it ended. */
  ends: string[] = [];
}

class Permit {
  isLost = false;
  call: Caller | undefined;
  held: Held<Permit> | undefined;
  isBack = false;

  constructor(readonly slot: string) {}
}

/** The world around a pool: it carries out what the pool says, when the test lets it. */
class World {
  nowMs = 0;
  readonly callers: Caller[] = [];
  readonly waiting: Caller[] = [];
  readonly tryers: Caller[] = [];
  readonly permits: Permit[] = [];
  readonly places: Place[] = [];
  /** Permits that the try which is under way may still bring; `undefined` when none is. */
  tries: number | undefined;
  isLooking = false;
  isClosed = false;
  calls = 0;
  lookTimes: number[] = [];
  linePermits = 0;
  /** The most permits that it may hold, and how many it had at the last step: too many go back by and by. */
  most = MAX;
  had = 0;
  private readonly state = new PoolState<Caller, Permit>(
    { id: 'pool', max: MAX, mayGrowTo: MAY_GROW_TO, reuseForMs: REUSE_MS, idleForMs: IDLE_MS, retireAfterMs: 20_000 },
    (permit) => !permit.isLost,
  );

  come(priorityKey: number, timeoutMs: number): void {
    if (this.isClosed) return;
    const caller = new Caller(priorityKey, this.nowMs + timeoutMs);
    this.callers.push(caller);
    if (timeoutMs === 0) {
      this.tryers.push(caller);
      this.state.tryOnce(caller);
    } else {
      this.waiting.push(caller);
      this.state.enqueue(caller);
    }
    this.step();
  }

  leave(nth: number): void {
    const caller = [...this.waiting, ...this.tryers][nth];
    if (!caller) return;
    assert.equal(this.state.withdraw(caller), true);
    this.end(caller, 'left');
    this.step();
  }

  endCall(nth: number): void {
    const permit = this.permits.filter(({ call }) => call)[nth];
    if (!permit?.held) return;
    permit.call = undefined;
    this.state.finished(permit.held, this.nowMs);
    this.step();
  }

  /** The try or a place brings a permit. */
  bring(nth: number): void {
    const place = this.places[nth];
    if (place) {
      this.places.splice(nth, 1);
      this.linePermits++;
      this.acquire(place);
    } else if (this.tries) {
      this.tries--;
      this.acquire();
    }
    this.step();
  }

  /** The try ends as it brings its last permit: both come before the pool's next step. */
  bringAndEndTry(): void {
    if (!this.tries) return;
    this.tries--;
    this.acquire();
    this.endTry(false);
  }

  endTry(isRefused: boolean): void {
    if (this.tries === undefined) return;
    this.tries = undefined;
    this.state.tried(this.nowMs, isRefused ? { error: 'refused', passes: false } : undefined);
    this.step();
  }

  endPlace(isRefused: boolean): void {
    const at = this.places.findIndex(({ isLeaving }) => isLeaving || isRefused);
    const [place] = at < 0 ? [] : this.places.splice(at, 1);
    if (place) this.state.left(place, this.nowMs, isRefused ? 'refused' : undefined);
    this.step();
  }

  answer(nths: number[] | undefined, out: number, capacity?: number): void {
    if (!this.isLooking) return;
    this.isLooking = false;
    const isInUse = (slot: string) => slot !== String(out);
    const tickets = nths?.map((nth, n) => ({ id: `${n}`, ...(nth > 0 && { pool: { id: `pool-${n}`, nth } }) }));
    if (tickets) this.most = Math.max(MAX, Math.min(capacity ?? 0, MAY_GROW_TO));
    this.state.looked(tickets && { tickets, isInUse, capacity }, this.nowMs);
    this.step();
  }

  lose(nth: number): void {
    const permit = this.permits.filter(({ isBack, isLost }) => !isBack && !isLost)[nth];
    if (!permit?.held) return;
    permit.isLost = true;
    permit.isBack = true;
    this.state.ended(permit.held);
    this.step();
  }

  trim(most: number): void {
    this.state.trim(most);
    this.step();
  }

  back(nth: number): void {
    const permit = this.permits.filter(({ held, isBack }) => held?.phase === 'releasing' && !isBack)[nth];
    if (!permit?.held) return;
    permit.isBack = true;
    this.state.ended(permit.held);
    this.step();
  }

  pass(ms: number): void {
    this.nowMs += ms;
    this.step();
  }

  close(): void {
    if (this.isClosed) return;
    this.isClosed = true;
    for (const caller of this.state.close()) this.end(caller, 'closed');
    this.step();
  }

  /** Whatever can still happen does, and in the end nothing is left. */
  finish(): void {
    this.close();
    for (let round = 0; round < 50 && !this.state.isEmpty; round++) {
      this.endCall(0);
      this.endTry(false);
      this.endPlace(false);
      this.back(0);
    }
    assert.equal(this.state.isEmpty, true, 'a closed pool comes to hold nothing');
    assert.deepEqual(
      this.callers.filter(({ ends }) => ends.length !== 1).map(({ ends }) => ends),
      [],
      'P5',
    );
  }

  private acquire(place?: Place): void {
    const permit = new Permit(String(this.permits.length));
    this.permits.push(permit);
    permit.held = this.state.acquired(permit, this.nowMs, place);
  }

  private end(caller: Caller, how: string): void {
    caller.ends.push(how);
    for (const list of [this.waiting, this.tryers]) if (list.includes(caller)) list.splice(list.indexOf(caller), 1);
  }

  private step(): void {
    for (const command of this.state.next(this.nowMs)) {
      if (command.do === 'serve') this.serve(command.caller, command.held);
      else if (command.do === 'time-out') {
        assert.ok(command.caller.deadlineMs <= this.nowMs);
        this.end(command.caller, 'late');
      } else if (command.do === 'refuse') {
        assert.ok(this.tryers.includes(command.caller), 'only those that do not wait are refused');
        assert.deepEqual(this.idle, [], 'P3');
        this.end(command.caller, 'refused');
      } else if (command.do === 'fail') this.end(command.caller, 'failed');
      else if (command.do === 'look') {
        assert.equal(this.isLooking, false, 'P4');
        this.isLooking = true;
        this.lookTimes.push(this.nowMs);
      } else if (command.do === 'try') {
        assert.ok(!this.isClosed && this.tries === undefined && command.count > 0);
        this.tries = command.count;
      } else if (command.do === 'line-up') {
        assert.equal(this.isClosed, false, 'P6');
        this.places.push(command.place);
      } else if (command.do === 'release') assert.equal(command.held.permit.call, undefined, 'P1');
    }
    this.check();
  }

  private serve(caller: Caller, { permit }: Held<Permit>): void {
    assert.ok(!this.isClosed, 'P6');
    assert.ok(!permit.call && !permit.isLost && !permit.isBack, 'P1');
    const first = [...this.waiting].sort((a, b) => a.priorityKey - b.priorityKey)[0];
    if (first) assert.equal(caller, first, 'P3');
    permit.call = caller;
    this.calls++;
    this.end(caller, 'served');
  }

  private get idle(): Permit[] {
    return this.permits.filter((permit) => !permit.isBack && permit.held?.phase === 'idle');
  }

  private check(): void {
    const held = this.permits.filter(({ isBack }) => !isBack).length;
    const has = held + this.places.length + (this.tries ?? 0);
    assert.ok(has <= Math.max(this.most, this.had), 'P2');
    this.had = has;
    const { idle } = this;
    assert.ok(idle.length === 0 || this.waiting.length === 0, 'P3');
    for (const permit of idle) assert.ok(this.nowMs < (permit.held?.idleSinceMs ?? 0) + IDLE_MS, 'idleFor');
    for (const caller of this.waiting)
      assert.ok(this.nowMs < caller.deadlineMs, 'nobody waits longer than its timeout');
    assert.ok(this.state.dueMs() > this.nowMs, `what is due is done: ${this.state.dueMs()} at ${this.nowMs}`);
    const looks = this.lookTimes.filter((atMs) => atMs > this.nowMs - REUSE_MS).length;
    assert.ok(
      looks <= 1 + this.linePermits,
      'P4: one each reuseFor, and one for each permit that came through the line',
    );
  }
}

const deed: fc.Arbitrary<(world: World) => void> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.tuple(fc.integer({ min: 1, max: 3 }), fc.constantFrom(0, 50, 5_000, Infinity)).map(
      ([p, t]) =>
        (world: World) =>
          world.come(p, t),
    ),
  },
  { weight: 5, arbitrary: fc.nat(2).map((n) => (world: World) => world.endCall(n)) },
  { weight: 4, arbitrary: fc.nat(3).map((n) => (world: World) => world.bring(n)) },
  {
    weight: 4,
    arbitrary: fc.constantFrom(0, 1, 10, 100, 300, 900, 30_000).map((ms) => (world: World) => world.pass(ms)),
  },
  { weight: 2, arbitrary: fc.nat(9).map((n) => (world: World) => world.endTry(n === 0)) },
  { weight: 2, arbitrary: fc.constant((world: World) => world.bringAndEndTry()) },
  { weight: 2, arbitrary: fc.nat(9).map((n) => (world: World) => world.endPlace(n === 0)) },
  { weight: 2, arbitrary: fc.nat(2).map((n) => (world: World) => world.back(n)) },
  { weight: 1, arbitrary: fc.nat(2).map((n) => (world: World) => world.lose(n)) },
  { weight: 1, arbitrary: fc.nat(2).map((n) => (world: World) => world.trim(n)) },
  { weight: 1, arbitrary: fc.nat(4).map((n) => (world: World) => world.leave(n)) },
  {
    weight: 3,
    arbitrary: fc
      .tuple(
        fc.option(fc.array(fc.nat(4), { maxLength: 4 }), { nil: undefined }),
        fc.integer({ min: -3, max: 5 }),
        fc.option(fc.integer({ min: 1, max: 7 }), { nil: undefined }),
      )
      .map(
        ([nths, out, capacity]) =>
          (world: World) =>
            world.answer(nths, out, capacity),
      ),
  },
);

test('whatever happens, the invariants hold, and every caller ends once (P1 to P6)', () => {
  let calls = 0;
  fc.assert(
    fc.property(fc.array(deed, { minLength: 60, maxLength: 200 }), (deeds) => {
      const world = new World();
      for (const act of deeds) act(world);
      world.finish();
      calls += world.calls;
    }),
    { numRuns: 300 },
  );
  assert.ok(calls > 1_000, `the runs had ${calls} calls`);
});
