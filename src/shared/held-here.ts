import type { ResolvedSemaphore } from './options';
import { waitsForItself } from './self-deadlock';

/** A permit under which code runs. */
interface Held {
  readonly resource: string;
  readonly key: string | undefined;
  /** The resources of which it is a permit: its own, and that of its key. */
  readonly resources: readonly string[];
  readonly isHeld: boolean;
  /** Whether it will not be held again. A permit that is given up for a while is not over. */
  readonly isOver: boolean;
}

/** An `AsyncLocalStorage`: Node's, or that of the Workflow sandbox. */
interface Storage<T> {
  getStore(): T | undefined;
  run<R>(store: T, fn: () => R): R;
}

/** The permits under which the calling code runs: those of all `withPermit`s around it. */
export class HeldHere<Permit extends Held> {
  /** @param refusal the error for a caller that would wait for itself */
  constructor(
    private readonly storage: Storage<readonly Permit[]>,
    private readonly refusal: new (resource: string, held: number, capacity: number) => Error,
  ) {}

  /** Runs `fn` as the holder of these permits, in addition to the permits around it that are not over. */
  run<T>(permits: readonly Permit[], fn: () => T): T {
    return this.storage.run([...this.around.filter(({ isOver }) => !isOver), ...permits], fn);
  }

  /** The permit of this resource and key under which the calling code runs already. */
  find(resource: string, key: string | undefined): Permit | undefined {
    return this.around.find((it) => it.isHeld && it.resource === resource && it.key === key);
  }

  /** The resources of the permits that are held here: one entry for each permit. */
  get resources(): string[] {
    return this.around.filter(({ isHeld }) => isHeld).flatMap(({ resources }) => resources);
  }

  /**
   * @param wanted the semaphores of which the calling code wants a permit: one entry for each permit
   * @throws SelfDeadlockError if it would wait for a permit that only it can give back itself
   */
  checkSelfDeadlock(wanted: readonly ResolvedSemaphore[], limits: { timeoutMs: number }): void {
    const held = this.resources;
    for (const semaphore of wanted) {
      const { resource, slots } = semaphore;
      const own = waitsForItself(semaphore, limits, held, wanted.filter((it) => it.resource === resource).length);
      if (own > 0) throw new this.refusal(resource, own, slots.length);
    }
  }

  /** How many permits the calling code holds around a call that waits for itself; 0 if the call does not. */
  ownWait(semaphore: ResolvedSemaphore): number {
    return waitsForItself(semaphore, { timeoutMs: Number.POSITIVE_INFINITY }, this.resources);
  }

  private get around(): readonly Permit[] {
    return this.storage.getStore() ?? [];
  }
}
