import { LineEntry } from '../../../../src/client/pool/caller-line';
import type { Others } from '../../../../src/client/pool/fair-share';
import type { Place } from '../../../../src/client/pool/pool-sizing';
import { type Held, type PoolCommand, PoolState } from '../../../../src/client/pool/pool-state';
import type { ResolvedSemaphore } from '../../../../src/shared/options';
import { leastPaceMs } from '../../../../src/shared/pace';
import { type Asking, acquire, endWait, Hold, type Process } from './caller';
import type { Server } from './server';

/** A call that wants a permit of the pool. */
class Call extends LineEntry {
  constructor(
    priorityKey: number,
    readonly serve: (held: Held<Hold> | undefined) => void,
  ) {
    super(priorityKey, Number.POSITIVE_INFINITY);
  }
}

/** A permit pool: its real state, and the shell around it as `permit-pool` and `permit-source` have it. */
export class SimulatedPool {
  /** How many permits it has given back since calls began. */
  givenBack = 0;
  /** Permits under which a call runs now. */
  private readonly busy = new Set<Hold>();
  private readonly holds = new Set<Hold>();
  private readonly state: PoolState<Call, Hold>;
  private readonly places = new Map<Place, Asking['over']>();
  private isStepping = false;

  constructor(
    private readonly server: Server,
    private readonly semaphore: ResolvedSemaphore,
    private readonly process: Process,
  ) {
    const rules = { id: process.name, max: semaphore.slots.length, reuseForMs: 1_000, idleForMs: 500 };
    this.state = new PoolState({ ...rules, retireAfterMs: 3_600_000 }, (hold) => !hold.isLost);
  }

  /** Runs for so long under a permit of the pool. */
  async call(workMs: number, priorityKey = 3): Promise<void> {
    const { world } = this.server;
    const held = await new Promise<Held<Hold> | undefined>((serve) => {
      this.state.enqueue(new Call(priorityKey, serve));
      this.soon();
    });
    if (!held) throw new Error('the pool has refused a call that waits');
    const { permit } = held;
    if (this.busy.has(permit)) throw new Error('P1: two calls run under one permit');
    if (!this.holds.has(permit)) throw new Error('P1: a call runs under a permit that the pool has given back');
    this.busy.add(permit);
    await world.sleep(workMs);
    this.busy.delete(permit);
    this.state.finished(held, world.nowMs);
    this.soon();
  }

  async close(): Promise<void> {
    this.state.close();
    this.soon();
    while (!this.state.isEmpty) await this.server.world.sleep(20);
  }

  private soon(): void {
    if (this.isStepping) return;
    this.isStepping = true;
    this.server.world.at(this.server.world.nowMs, () => {
      this.isStepping = false;
      this.step();
    });
  }

  private step(): void {
    const { world } = this.server;
    for (const command of this.state.next(world.nowMs)) this.carryOut(command);
    const dueMs = this.state.dueMs();
    if (dueMs < Number.POSITIVE_INFINITY) world.at(Math.max(dueMs, world.nowMs + 1), () => this.soon());
  }

  private carryOut(command: PoolCommand<Call, Hold>): void {
    if (command.do === 'serve') command.caller.serve(command.held);
    else if (command.do === 'refuse' || command.do === 'fail' || command.do === 'time-out')
      command.caller.serve(undefined);
    else if (command.do === 'release') void this.release(command.held);
    else if (command.do === 'look') void this.look();
    else if (command.do === 'try') void this.try(command.count);
    else if (command.do === 'line-up') void this.lineUp(command.place);
    else this.leave(command.place);
  }

  private async release(held: Held<Hold>): Promise<void> {
    this.givenBack++;
    await held.permit.release();
    this.gone(held);
  }

  private gone(held: Held<Hold>): void {
    held.permit.stop();
    if (!this.holds.delete(held.permit)) return;
    this.state.ended(held);
    this.soon();
  }

  private async look(): Promise<void> {
    this.state.looked(await this.others(), this.server.world.nowMs);
    this.soon();
  }

  private async others(): Promise<Others | undefined> {
    const { world, queues } = this.server;
    await world.hop();
    const queue = queues.get(this.semaphore.resource);
    const { tickets = [], slots = [] } = queue?.state.view() ?? {};
    const offered = new Set(slots.flatMap(([, state]) => (state.at === 'offered' ? state.ticketId : [])));
    await world.hop();
    if ((queue?.stoppedUntilMs ?? 0) > world.nowMs) return undefined;
    const others = tickets.filter(({ id, pool }) => pool?.id !== this.process.name && !offered.has(id));
    return { tickets: others, isInUse: () => true };
  }

  private async try(count: number): Promise<void> {
    const { server, semaphore, process } = this;
    const { world } = server;
    if (semaphore.fair && (await this.others())?.tickets.length !== 0) {
      this.state.tried(world.nowMs);
      return this.soon();
    }
    const own = new Set([...this.holds].map(({ slot }) => slot));
    const slots = semaphore.slots
      .filter((slot) => !own.has(slot))
      .sort(() => world.random() - 0.5)
      .slice(0, count + 2);
    const lane = async () => {
      for (let slot = slots.shift(); slot !== undefined; slot = slots.shift()) {
        const sentMs = world.nowMs;
        const run = await server.claim(semaphore.resource, slot, process.name, semaphore.leaseMs, {
          paceMs: leastPaceMs(server.namespace),
        });
        if (run) return this.acquired(new Hold(server, run, process, sentMs));
      }
    };
    await Promise.all(Array.from({ length: count }, lane));
    this.state.tried(world.nowMs);
    this.soon();
  }

  private async lineUp(place: Place): Promise<void> {
    const { server, semaphore, process } = this;
    const over = { isOver: false, wake: new Set<() => void>() };
    this.places.set(place, over);
    const hold = await acquire(server, semaphore, {
      process,
      name: process.name,
      priorityKey: place.priorityKey,
      sinceMs: server.world.nowMs,
      deadlineMs: Number.POSITIVE_INFINITY,
      over,
      pool: { id: process.name, nth: place.nth },
    });
    this.places.delete(place);
    if (hold) this.acquired(hold, place);
    else this.state.left(place, server.world.nowMs);
    this.soon();
  }

  private leave(place: Place): void {
    const over = this.places.get(place);
    if (!over) return;
    endWait(over);
  }

  private acquired(hold: Hold, place?: Place): void {
    this.holds.add(hold);
    const held = this.state.acquired(hold, this.server.world.nowMs, place);
    void this.watch(hold, held);
    this.soon();
  }

  /** The pool hears when its permit is lost: the call under it aborts. */
  private async watch(hold: Hold, held: Held<Hold>): Promise<void> {
    await Promise.race([hold.run.whenClosed, hold.whenStopped]);
    this.busy.delete(hold);
    if (this.holds.has(hold)) this.gone(held);
  }
}
