import assert from 'node:assert/strict';
import { acquireInOrder, releaseInReverse } from '../../../src/shared/permit-set';
import type { Actor, System } from './system';

interface Part {
  readonly resource: string;
  readonly role: 'own' | 'accumulator';
}

interface HeldPart {
  readonly actor: Actor | undefined;
  release(): Promise<void>;
}

const STOPPED = new Error('stopped');

/**
 * A caller that wants several permits of the pool: the real {@link acquireInOrder}, with a real acquirer for each part. The one
 * permit that allows to keep a part is had at any moment at which nobody has it, in any order: the model of one slot shows
 * that its pool works.
 */
export class SetCaller {
  fate: 'waits' | 'holds' | 'gone' | 'dead' = 'waits';
  /** For what its code waits; an actor besides waits for itself. */
  private waitsFor: 'the accumulator' | 'a part' | 'an end' | undefined;
  private hear: { resolve(): void; reject(error: Error): void } | undefined;
  private current: Actor | undefined;
  private readonly actors: Actor[] = [];
  private held: HeldPart[] = [];
  private isStopped = false;
  private isReleasing = false;
  /** Whose ends it awaits. */
  private readonly ending = new Set<Actor>();

  constructor(
    private readonly system: System,
    readonly number: number,
    private readonly size: number,
    private readonly addActor: (part: SetCaller, held: readonly string[]) => Actor,
  ) {
    const part = (role: Part['role']): Part => ({ resource: 'pool', role });
    const parts = [part('accumulator'), ...Array.from({ length: size }, () => part('own'))];
    const acquire = (part: Part, held: readonly HeldPart[]) => this.acquire(part, held);
    acquireInOrder(parts, acquire, () => {}).then(
      (held) => {
        this.held = held.map(({ grant }) => grant);
        if (this.isStopped) void this.releaseAll();
        else if (this.fate === 'waits') this.fate = 'holds';
      },
      (error) => {
        assert.equal(error, STOPPED);
        if (this.fate === 'waits') this.fate = 'gone';
      },
    );
  }

  /** Its own code runs. */
  get isThinking(): boolean {
    if (this.fate === 'dead' || this.fate === 'gone') return false;
    if (this.waitsFor === 'a part') return this.current?.fate !== 'waits';
    if (this.waitsFor === 'an end') return [...this.ending].some(({ isClosed }) => isClosed);
    return this.waitsFor === undefined && (this.fate === 'waits' || this.isReleasing);
  }

  key(): unknown {
    const { fate, waitsFor, isStopped, held, ending, actors, system } = this;
    return [
      fate === 'waits' || fate === 'holds'
        ? [fate, waitsFor, isStopped, this.isReleasing, held.length, [...ending].map(({ ticket }) => ticket.id)]
        : fate,
      system.accumulator === this,
      actors.map((actor) => actor.key()),
    ];
  }

  /** @param held how many permits it has that do not end */
  check(held: number): void {
    if (this.fate === 'gone') assert.equal(held, 0, `caller ${this.number} has gone, and left permits`);
    if (this.fate === 'holds' && !this.isStopped && !this.isReleasing)
      assert.equal(held, this.size, 'S1: it runs without all that it wants');
    if (this.fate === 'waits' && held > 0 && held < this.size && !this.isStopped)
      assert.equal(this.system.accumulator, this, 'it keeps a part, and is not the accumulator');
  }

  steps() {
    const { system, number } = this;
    const steps: { name: string; run: () => void }[] = [];
    if (system.accumulator === this && this.fate === 'dead') {
      steps.push({ name: `lease of accumulator ${number} ends`, run: () => this.endAccumulator() });
    }
    if (this.fate !== 'dead' && this.waitsFor === 'the accumulator' && system.accumulator === undefined) {
      const run = () => {
        system.accumulator = this;
        this.wake().resolve();
      };
      steps.push({ name: `${number} becomes the accumulator`, run });
    }
    const isDone = this.fate === 'holds' && !this.isReleasing && !this.isStopped;
    if (isDone) steps.push({ name: `${number} releases all`, run: () => void this.releaseAll() });
    return steps;
  }

  die(): void {
    this.fate = 'dead';
    for (const actor of this.actors) if (actor.fate === 'waits' || actor.fate === 'holds') actor.die();
  }

  cancel(): void {
    this.stop();
  }

  /** One of its permits is lost. */
  lose(): void {
    this.stop();
  }

  loseAccumulator(): void {
    this.endAccumulator();
    if (this.fate === 'waits') this.stop();
  }

  private stop(): void {
    if (this.isStopped || this.fate === 'dead' || this.fate === 'gone') return;
    this.isStopped = true;
    if (this.waitsFor === 'the accumulator') this.wake().reject(STOPPED);
    else if (this.waitsFor === 'a part') this.current?.cancel();
    else if (this.fate === 'holds' && !this.isReleasing) void this.releaseAll();
  }

  private async acquire({ role }: Part, held: readonly HeldPart[]): Promise<HeldPart> {
    if (this.isStopped) throw STOPPED;
    if (role === 'accumulator') {
      await this.wait('the accumulator');
      return { actor: undefined, release: async () => this.endAccumulator() };
    }
    const actor = this.addActor(
      this,
      held.flatMap(({ actor }) => actor?.slot ?? []),
    );
    this.actors.push(actor);
    this.current = actor;
    this.waitsFor = 'a part';
    try {
      await actor.had;
    } catch {
      throw STOPPED;
    } finally {
      this.waitsFor = undefined;
    }
    return { actor, release: () => this.release(actor) };
  }

  private async release(actor: Actor): Promise<void> {
    if (actor.slot === undefined) return; // it is lost
    this.ending.add(actor);
    this.waitsFor = 'an end';
    this.system.end(actor);
    await actor.whenClosed;
    actor.fate = 'gone';
    this.ending.delete(actor);
    if (this.ending.size === 0) this.waitsFor = undefined;
  }

  private async releaseAll(): Promise<void> {
    this.isReleasing = true;
    await releaseInReverse(this.held);
    this.isReleasing = false;
    if (this.fate === 'holds' || this.fate === 'waits') this.fate = 'gone';
  }

  private endAccumulator(): void {
    if (this.system.accumulator === this) this.system.accumulator = undefined;
  }

  private async wait(what: 'the accumulator'): Promise<void> {
    this.waitsFor = what;
    try {
      await new Promise<void>((resolve, reject) => {
        this.hear = { resolve, reject };
      });
    } finally {
      this.waitsFor = undefined;
    }
  }

  private wake() {
    const hear = this.hear ?? assert.fail('it waits for nothing');
    this.waitsFor = undefined;
    return hear;
  }
}
