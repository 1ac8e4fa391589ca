import assert from 'node:assert/strict';
import { accumulatorResource, keyResource, wholeOf } from '../../../../src/shared/key-names';
import { type ResolvedSemaphore, resolveSemaphore } from '../../../../src/shared/options';
import { START_INTERVAL_MS } from '../../../../src/shared/pace';
import type { OverrideInput } from '../../../../src/shared/protocol';
import { type Asking, acquire, acquireSet, endWait, type Hold, Process, releaseAll } from './caller';
import { SimulatedPool } from './permit-pool';
import { type PermitRun, Server } from './server';
import { World } from './world';

/** How long a run of callers lasts, and how long after it everyone must be served. */
const RUN_MS = 60_000;
const CALM_MS = 20 * 60_000;
/** From when a slot comes free while somebody waits until it is had: messages, tasks, and a waiter that does not answer. */
const HAND_OFF_MS = 12_000;
/** … where nothing goes wrong but that an answer is lost. */
const CALM_HAND_OFF_MS = 2_500;
const LOOK_EVERY_MS = 250;
/** By then, an order is in force: each free slot is claimed, and each turn used. Late messages take up to two seconds each. */
const IN_FORCE_MS = 8_000;
/** Who came so much earlier has its place in line. */
const PARKED_MS = 500;
/** By then, whoever is to give way has heard of it, and a turn that was under way before has been used. */
const NEWS_MS = 1_000;

/** As the callers have it: a waiter that the queue has answered finds out after 25 times that, or as long as it has waited. */
const RECHECK_MS = 1_000;

export interface Told {
  /** What has happened, a line each. */
  readonly story: readonly string[];
  served: number;
  gaveUp: number;
  died: number;
  /** Sets of which a part was lost. */
  lost: number;
  holds: number;
  longestWaitMs: number;
  /** The longest that a slot was free while a caller of one permit waited, after the faults. */
  longestIdleMs: number;
}

/** One acquire. */
interface Entry {
  readonly name: string;
  readonly process: Process;
  isDone: boolean;
  readonly sinceMs: number;
  heldMs: number;
  readonly resource: string;
  /** The priority of one that wants a permit of `a` and no more. */
  readonly rank: number | undefined;
}

/** A run broke what the library promises. */
export class BrokenPromise extends Error {
  constructor(
    readonly seed: number,
    readonly story: readonly string[],
    override readonly cause: unknown,
  ) {
    super(`seed ${seed}: ${cause instanceof Error ? cause.message : cause}\n${story.slice(-60).join('\n')}`, { cause });
  }
}

/** A quarter of the runs have no faults, and callers who come often: then the bounds are narrow, and order can be told. */
const isCalm = (seed: number) => seed % 4 === 0;

/** … and a third of the others have a server with the rule of one start a second. */
const startsOnceASecond = (seed: number) => seed % 4 === 1;

/** One run, as the seed has it: callers, sets, keys, permit pools, operators, faults. @throws BrokenPromise */
export async function simulate(seed: number): Promise<Told> {
  const world = new World(seed, { lostAnswer: seed % 3 === 0 ? 0 : 0.02, lateMessage: seed % 2 === 0 ? 0 : 0.03 });
  try {
    return await world.run(new Simulation(world).run(), RUN_MS + CALM_MS);
  } catch (error) {
    throw new BrokenPromise(seed, world.story, error);
  }
}

class Simulation {
  private readonly server: Server;
  private readonly resources: ResolvedSemaphore[];
  private readonly callers: Entry[] = [];
  private readonly holds: Hold[] = [];
  private readonly pools: SimulatedPool[] = [];
  /** What operators have ordered: so many slots are in use in that time. */
  private readonly orders: { inUse: number; fromMs: number; toMs: number }[] = [];
  /** A queue was terminated, or stopped: its waiters find out by themselves. */
  private wasQueueHit = false;
  private readonly told: Told;

  constructor(private readonly world: World) {
    this.server = new Server(world, startsOnceASecond(world.seed));
    const counts = { served: 0, gaveUp: 0, died: 0, lost: 0, holds: 0, longestWaitMs: 0, longestIdleMs: 0 };
    this.told = { story: world.story, ...counts };
    const fair = isCalm(world.seed) || world.random() < 0.3;
    const options = { fair, recheckAfter: RECHECK_MS, lease: '10s' as const };
    this.resources = ['a', 'b'].map((resource) =>
      resolveSemaphore(
        resource,
        { capacity: world.integer(1, 4), ...options, ...(resource === 'b' && { perKey: 1 }) },
        { leaseMs: 10_000 },
      ),
    );
  }

  async run(): Promise<Told> {
    const { world, server } = this;
    const count = world.integer(5, 20);
    const work: Promise<void>[] = Array.from({ length: count }, (_, index) => this.caller(index));
    const pooled = world.random() < 0.5 ? world.integer(1, 3) : 0;
    for (let index = 0; index < pooled; index++) work.push(this.pool(index));
    const stop = { isOver: false };
    const faults = this.faults(stop);
    const watching = this.watchIdle(stop);
    await Promise.all(work);
    stop.isOver = true;
    await Promise.all([faults, watching]);
    // What a dead process had ends with its lease. What a terminated queue keeps out of use takes an hour.
    const left = () => [...server.permits.values()].filter(({ by }) => !by.startsWith('queue of'));
    for (let waitedMs = 0; left().length > 0 && waitedMs < 120_000; waitedMs += 500) await world.sleep(500);
    assert.deepEqual(left(), [], 'L1: a permit is left');
    this.judge();
    return this.told;
  }

  /** A caller of one permit, of several, of a key, or of both resources. */
  private async caller(index: number): Promise<void> {
    const { world } = this;
    const process = new Process(`caller ${index}`);
    const comesOften = isCalm(world.seed);
    for (let turn = comesOften ? world.integer(2, 6) : world.integer(1, 3); turn > 0 && !process.isDead; turn--) {
      await world.sleep(world.integer(0, comesOften ? RUN_MS / 20 : RUN_MS / 6));
      const [a, b] = this.resources as [ResolvedSemaphore, ResolvedSemaphore];
      const kind = world.random();
      const priorityKey = world.random() < 0.5 ? undefined : world.integer(1, 5);
      const fairnessKey = world.random() < 0.2 ? world.pick(['red', 'blue']) : undefined;
      const sinceMs = world.nowMs;
      const deadlineMs = world.random() < 0.15 ? sinceMs + world.integer(500, 20_000) : Number.POSITIVE_INFINITY;
      const over = { isOver: false, wake: new Set<() => void>() };
      const asking: Asking = {
        process,
        name: `${process.name}.${turn}`,
        priorityKey,
        fairnessKey,
        sinceMs,
        deadlineMs,
        over,
      };
      const single = kind < 0.5 && fairnessKey === undefined;
      const entry: Entry = {
        name: asking.name,
        process,
        isDone: false,
        sinceMs,
        heldMs: Number.POSITIVE_INFINITY,
        resource: kind < 0.5 ? 'a' : '',
        rank: single ? (priorityKey ?? 3) : undefined,
      };
      this.callers.push(entry);
      if (world.random() < 0.1) world.at(sinceMs + world.integer(10, 15_000), () => endWait(over));
      const key = world.pick(['x', 'y', 'z']);
      const acquired = this.oneOf(kind, { a, b, key, asking });
      const dead = process.whenDead;
      const held = await Promise.race([acquired, dead]);
      entry.isDone = true;
      if (process.isDead) {
        this.told.died++;
        void acquired.then((late) => {
          if (Array.isArray(late)) for (const hold of late) hold.stop();
        });
        return;
      }
      if (held === 'lost') {
        this.told.lost++;
        continue;
      }
      if (!held) {
        assert.ok(over.isOver || world.nowMs >= deadlineMs, `${asking.name} has given up without a reason`);
        this.told.gaveUp++;
        continue;
      }
      entry.heldMs = world.nowMs;
      this.told.served++;
      this.told.longestWaitMs = Math.max(this.told.longestWaitMs, world.nowMs - sinceMs);
      this.holds.push(...held);
      await Promise.race([
        world.sleep(world.random() < 0.2 ? world.integer(10_000, 25_000) : world.integer(0, comesOften ? 500 : 2_000)),
        dead,
      ]);
      if (process.stoppedUntilMs > world.nowMs) await world.sleep(process.stoppedUntilMs - world.nowMs);
      if (process.isDead) for (const hold of held) hold.stop();
      else await releaseAll(held);
    }
  }

  private async oneOf(
    kind: number,
    { a, b, key, asking }: { a: ResolvedSemaphore; b: ResolvedSemaphore; key: string; asking: Asking },
  ): Promise<Hold[] | 'lost' | undefined> {
    const { server, world } = this;
    const plain = (semaphore: ResolvedSemaphore) => ({ semaphore, key: undefined, permits: undefined });
    if (kind < 0.5) {
      const hold = await acquire(server, a, asking);
      return hold && [hold];
    }
    if (kind < 0.65 && a.slots.length > 1) {
      return await acquireSet(server, [{ ...plain(a), permits: world.integer(2, a.slots.length) }], asking);
    }
    if (kind < 0.85) return await acquireSet(server, [{ ...plain(b), key }], asking);
    return await acquireSet(server, [plain(a), { ...plain(b), key }], asking);
  }

  private async pool(index: number): Promise<void> {
    const { world, server } = this;
    const [a] = this.resources as [ResolvedSemaphore];
    const process = new Process(`pool ${index}`);
    const pool = new SimulatedPool(server, a, process);
    this.pools.push(pool);
    const untilMs = RUN_MS * (0.2 + 0.5 * world.random());
    const lanes = Array.from({ length: world.integer(1, 4) }, async () => {
      while (world.nowMs < untilMs) {
        await pool.call(world.integer(5, 200));
        if (world.random() < 0.1) await world.sleep(world.integer(0, 2_000));
      }
    });
    await Promise.all(lanes);
    await pool.close();
  }

  private async faults(stop: { isOver: boolean }): Promise<void> {
    const { world, server } = this;
    while (!isCalm(world.seed) && world.nowMs < RUN_MS && !stop.isOver) {
      await world.sleep(world.integer(200, 6_000));
      const queue = world.random() < 0.7 ? server.queues.get('a') : world.pick([...server.queues.values()]);
      const permits = [...server.permits.values()].filter(({ by }) => !by.startsWith('queue'));
      const caller = world.pick(this.callers);
      const fault = world.integer(1, 9);
      if (fault <= 2) this.hitQueue();
      if (fault === 1) queue?.terminate();
      else if (fault === 2 && queue) queue.stoppedUntilMs = world.nowMs + world.integer(100, 15_000);
      else if (fault === 3) queue?.continueAsNew();
      else if (fault === 4 && permits.length > 0) this.terminate(world.pick(permits));
      else if (fault === 5 && caller && world.random() < 0.5) this.kill(caller.process);
      else if (fault === 6 && caller) caller.process.stoppedUntilMs = world.nowMs + world.integer(100, 20_000);
      else if (fault === 7) await this.order({ capacity: world.integer(1, 4) });
      else if (fault === 8) await this.order({ pauseUntilMs: world.nowMs + world.integer(100, 15_000) });
    }
    world.isFaulty = false;
    if (isCalm(world.seed)) return;
    await this.order({ capacity: this.resources[0]?.slots.length ?? 1, paused: false });
    world.tell('no more faults');
  }

  /** It may forget what an operator has set. */
  private hitQueue(): void {
    this.wasQueueHit = true;
    this.endOrders();
    this.orders.push({ inUse: Number.POSITIVE_INFINITY, fromMs: this.world.nowMs, toMs: Number.POSITIVE_INFINITY });
  }

  private endOrders(): void {
    for (const order of this.orders) order.toMs = Math.min(order.toMs, this.world.nowMs);
  }

  /** Half of the time together with its holder, which would have told the queue. */
  private terminate(permit: PermitRun): void {
    const holder = this.callers.find(({ name }) => name === permit.by);
    if (holder && this.world.random() < 0.5) this.kill(holder.process);
    this.server.terminate(permit);
  }

  private kill(process: Process): void {
    this.world.tell(`${process.name} is killed`);
    process.kill();
  }

  private async order(change: Partial<OverrideInput>): Promise<void> {
    const { world, server } = this;
    const slots = this.resources[0]?.slots.length ?? 1;
    this.endOrders();
    world.tell(`an operator orders ${JSON.stringify(change)}`);
    const taken = () => {
      const { capacity = slots, pauseUntilMs } = change;
      const last = this.orders.at(-1);
      this.endOrders();
      // A pause leaves the capacity as it is.
      const inUse = pauseUntilMs === undefined ? capacity : (last?.inUse ?? slots);
      if (pauseUntilMs !== undefined)
        this.orders.push({ inUse: 0, fromMs: world.nowMs + IN_FORCE_MS, toMs: pauseUntilMs });
      this.orders.push({
        inUse,
        fromMs: Math.max(world.nowMs + IN_FORCE_MS, pauseUntilMs ?? 0),
        toMs: Number.POSITIVE_INFINITY,
      });
    };
    const override = () =>
      server.tellQueue('a', ({ state }) => {
        state.setOverride({ slots, ...change }, world.nowMs);
        taken(); // a queue that is stopped takes it later
      });
    while (!(await override())) await server.startQueue('a'); // a waiter may have started it first
  }

  /**
   * The queue gives nobody a slot that an operator has taken out of use. Nor does anybody take it unseen, unless it was held then: who is
   * faster may take it from its holder. One that was stopped may use a turn that it got before.
   */
  private judgeOrders(): void {
    const stopped = new Set(this.callers.flatMap(({ name, process }) => (process.stoppedUntilMs > 0 ? name : [])));
    const runs = this.server.runs.filter(({ resource, by }) => resource === 'a' && !by.startsWith('queue of'));
    for (const { inUse, fromMs, toMs } of this.orders) {
      for (const { slot, startedAtMs, by, byTurn } of runs) {
        if (startedAtMs < fromMs || startedAtMs >= toMs || Number(slot) < inUse || stopped.has(by)) continue;
        const wasHeld = runs.some(
          (run) => run.slot === slot && run.startedAtMs < startedAtMs && run.closedMs > fromMs - IN_FORCE_MS,
        );
        assert.ok(wasHeld && !byTurn, `${by} takes slot ${slot} at ${startedAtMs}, and ${inUse} are in use`);
      }
    }
  }

  /** How long a slot of `a` is free while somebody waits for one, once there are no more faults. */
  private async watchIdle(stop: { isOver: boolean }): Promise<void> {
    const { world, server } = this;
    const [a] = this.resources as [ResolvedSemaphore];
    let sinceMs = Number.POSITIVE_INFINITY;
    while (!stop.isOver) {
      await world.sleep(LOOK_EVERY_MS);
      const isWaiting = this.callers.some(
        ({ isDone, process, sinceMs: from, resource }) =>
          resource === 'a' &&
          !isDone &&
          !process.isDead &&
          process.stoppedUntilMs < world.nowMs &&
          from < world.nowMs - 1_000,
      );
      const isFree = a.slots.some((slot) => !server.permits.has(`a:${slot}`));
      if (!isWaiting || !isFree || world.isFaulty) sinceMs = Number.POSITIVE_INFINITY;
      else sinceMs = Math.min(sinceMs, world.nowMs);
      if (sinceMs < world.nowMs) this.told.longestIdleMs = Math.max(this.told.longestIdleMs, world.nowMs - sinceMs);
    }
  }

  /** In strict order, nobody is served before one who has waited for longer, and is as urgent. */
  private judgeOrder(): void {
    const served = this.callers.filter(({ rank, heldMs }) => rank !== undefined && heldMs < Number.POSITIVE_INFINITY);
    for (const first of served) {
      for (const later of served) {
        if ((first.rank ?? 0) > (later.rank ?? 0) || first.sinceMs + PARKED_MS > later.sinceMs) continue;
        const isOvertaken = later.heldMs + PARKED_MS < first.heldMs;
        assert.ok(!isOvertaken, `${later.name} came after ${first.name}, is no more urgent, and was served first`);
      }
    }
  }

  /** In strict order, nobody that keeps no part of a resource takes its first while a better priority waits for what admits it. */
  private judgeGivingWay(): void {
    const { waits } = this.server;
    for (const { name, resource, priorityKey, kept, isHad, toMs } of waits) {
      if (!isHad || kept.includes(resource) || kept.some((other) => wholeOf(other) !== wholeOf(resource))) continue;
      for (const other of waits) {
        const isBetter = kept.includes(other.resource) && other.priorityKey < priorityKey;
        const isWaiting = other.fromMs + NEWS_MS < toMs && other.toMs > toMs;
        assert.ok(!(isBetter && isWaiting), `${name} has ${resource} at ${toMs}, and ${other.name} is more urgent`);
      }
    }
  }

  /** Where the server starts an ID once a second, a permit keeps its slot for so long, whatever it is of and whoever has it. */
  private judgePaces(): void {
    const lastedMs = (run: PermitRun) => Math.round(run.closedMs - run.startedAtMs); // the world's clock has fractions
    const first = this.server.runs.find((run) => !run.isTerminated && lastedMs(run) < START_INTERVAL_MS);
    assert.ok(!first, `the permit of ${first?.by} keeps ${first?.resource}:${first?.slot} for less than a second`);
  }

  private judge(): void {
    const { told, server } = this;
    if (isCalm(this.world.seed)) {
      this.judgeOrder();
      this.judgeGivingWay();
    }
    if (startsOnceASecond(this.world.seed)) this.judgePaces();
    this.judgeOrders();
    told.holds = server.runs.length;
    for (const [slot, holds] of grouped(this.holds)) {
      const inOrder = [...holds].sort((one, other) => one.fromMs - other.fromMs);
      for (const [index, hold] of inOrder.entries()) {
        const next = inOrder[index + 1];
        if (!next || hold.toMs <= next.fromMs) continue;
        const wasLost = ({ run, toMs }: Hold) => run.closedMs < toMs;
        const wasHit = hold.process.isDead || hold.process.stoppedUntilMs > 0 || wasLost(hold) || wasLost(next);
        assert.ok(wasHit, `S1: two hold ${slot} at ${next.fromMs}`);
      }
    }
    const mostMs = isCalm(this.world.seed) ? CALM_HAND_OFF_MS : HAND_OFF_MS + (this.wasQueueHit ? RUN_MS : 0);
    assert.ok(told.longestIdleMs <= mostMs, `a slot is free for ${told.longestIdleMs} ms, and somebody waits`);
    for (const resource of [accumulatorResource('a'), keyResource('b', 'x')]) {
      const runs = server.runs.filter((run) => run.resource === resource);
      const isOverlapping = runs.some(
        (run, index) => run.closedMs > (runs[index + 1]?.startedAtMs ?? Number.POSITIVE_INFINITY),
      );
      assert.equal(isOverlapping, false, `two hold the only permit of ${resource}`);
    }
  }
}

function grouped(holds: readonly Hold[]): Map<string, Hold[]> {
  const groups = new Map<string, Hold[]>();
  for (const hold of holds) {
    const name = `${hold.resource}:${hold.slot}`;
    groups.set(name, [...(groups.get(name) ?? []), hold]);
  }
  return groups;
}
