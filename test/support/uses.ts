import type { Permit as ClientPermit } from '../../src/client';
import type { PermitRef } from '../../src/shared/protocol';
import type { WithPermitOptions, Permit as WorkflowPermit } from '../../src/workflow';

// What callers do that is the same code in a Workflow and in a client: each of these runs in both, as a test of test/contract asks.

type AnyPermit = WorkflowPermit | ClientPermit;
type Options = Omit<WithPermitOptions, 'outlivesRun'>;

/** What `Semaphore` and `SemaphoreClient` have alike. */
export interface AnySemaphore {
  withPermit<T>(fn: (permit: AnyPermit) => T | Promise<T>, options?: Options): Promise<T>;
  acquire(options?: Options): Promise<AnyPermit>;
  tryAcquire(options?: Options): Promise<AnyPermit | undefined>;
}

/** Where such code stands: in a Workflow or in a client. */
export interface Stand {
  readonly pool: AnySemaphore;
  /** A permit that it may adopt. */
  readonly ref?: PermitRef | undefined;
  /** The options of an acquire whose permit is handed over later. */
  readonly outliving: Options;
  /** `withPermits` and `acquireAll` of the pool alone. */
  together<T>(fn: (permits: [AnyPermit]) => T | Promise<T>, options?: object): Promise<T>;
  all(options?: object): Promise<unknown>;
  /** Tells the test what it holds. */
  at(permit: { readonly slot: string; readonly runId: string }): void;
  /** Waits until the test says so. */
  finished(): Promise<void>;
  sleep(ms: number): Promise<void>;
  /** The token of the permit under which the calling code runs. */
  token(): string;
  /** Waits until it is told of a permit's loss. */
  lost(permit: AnyPermit): Promise<{ name: string; how: string; resource: string }>;
}

function tokenOf({ resource, slot, runId }: AnyPermit): string {
  return `${resource}/${slot}/${runId}`;
}

/** The type, or the name, of an error and its message; `done` for none. */
async function outcomeOf(asked: () => Promise<unknown>): Promise<string> {
  try {
    await asked();
    return 'done';
  } catch (error) {
    const { type, name, message } = error as Error & { type?: string };
    return `${type ?? name}: ${message}`;
  }
}

export const uses = {
  /** Holds a permit of a key by hand. */
  async keyed({ pool, at, finished }: Stand) {
    const permit = await pool.acquire({ key: 'acme' });
    at(permit);
    await finished();
    await permit.release();
    return permit.isHeld;
  },

  /** Holds a permit of a key by hand until it is lost. */
  async keyLoser({ pool, at, lost }: Stand) {
    const permit = await pool.acquire({ key: 'acme' });
    at(permit);
    const { name, how, resource } = await lost(permit);
    const renewal = await outcomeOf(() => permit.renew());
    await permit.release();
    return { name, how, resource, isHeld: permit.isHeld, renewal: renewal.replace(/:.*/s, '') };
  },

  /** Releases its permit within its function, and renews it all the same: as its code would, and as the library does on its own. */
  async releaser({ pool }: Stand) {
    return await pool.withPermit(async (permit) => {
      const { grant } = permit as unknown as { grant: { renew(): Promise<Date> } };
      await permit.release();
      return [await outcomeOf(() => permit.renew()), await outcomeOf(() => grant.renew())];
    });
  },

  /** Asks for the permit that it holds, in some depth, and with an end by an error. */
  async reentrant({ pool, at, finished, token }: Stand) {
    return await pool.withPermit(async (outer) => {
      const same = [
        await pool.withPermit((inner) => inner === outer),
        await pool.withPermit(() => pool.withPermit(async (inner) => inner === outer && token() === tokenOf(outer))),
        await pool.withPermit((inner) => inner === outer, { timeout: 0 }),
      ];
      const thrown = await outcomeOf(() =>
        pool.withPermit(() => {
          throw new Error('its own');
        }),
      );
      at(outer);
      await finished();
      return { same, thrown, isHeld: outer.isHeld, token: token() === tokenOf(outer) };
    });
  },

  /** As {@link reentrant}, with keys. */
  async reentrantKeys({ pool }: Stand) {
    const [a, b] = [{ key: 'a' }, { key: 'b' }];
    return await pool.withPermit(
      async (outer) => ({
        same: await pool.withPermit((inner) => inner === outer, a),
        other: await pool.withPermit(
          async (other) => ({
            isNew: other !== outer && other.runId !== outer.runId,
            same: await pool.withPermit((inner) => inner === other, b),
            outer: await pool.withPermit((inner) => inner === outer, a),
          }),
          b,
        ),
      }),
      a,
    );
  },

  /** Asks for more than there is while it holds all. */
  async selfish({ pool }: Stand) {
    return await pool.withPermit(() => outcomeOf(() => pool.withPermit(() => 'ran')));
  },

  /** Hands a permit over, out of one function and into another. */
  async handOver({ pool, outliving, at, finished, token }: Stand) {
    const ref = await pool.withPermit((permit) => permit.detach(), outliving);
    const adopted = async (permit: AnyPermit) => {
      at(permit);
      await finished();
      return { same: permit.runId === ref.runId, token: token() === tokenOf(permit) };
    };
    return await pool.withPermit(adopted, { adopt: ref });
  },

  /** Works under a permit that somebody else has acquired. */
  async adopts({ pool, ref, at, finished }: Stand) {
    return await pool.withPermit(
      async (permit) => {
        at(permit);
        await finished();
        return 'worked';
      },
      { adopt: ref },
    );
  },

  /** Misspells an option, wherever there are some. */
  async misspells({ pool, together, all }: Stand) {
    const bad = { timeOut: 5 } as object;
    return [
      await outcomeOf(() => pool.acquire(bad)),
      await outcomeOf(() => pool.tryAcquire(bad)),
      await outcomeOf(() => pool.withPermit(() => 'ran', bad)),
      await outcomeOf(() => together(() => 'ran', bad)),
      await outcomeOf(() => all(bad)),
    ];
  },

  /** Its functions return no promise. */
  async plain({ pool, together, token }: Stand) {
    const runs: string[] = [];
    const seen = [
      await pool.withPermit((permit) => {
        runs.push(permit.runId);
        return token() === tokenOf(permit) && token() === String(permit.token);
      }),
      await together(([permit]) => {
        runs.push(permit.runId);
        return String(permit.token) === tokenOf(permit);
      }),
    ];
    return { seen, runs };
  },

  /** Gives its permit up for a wait, and then at a checkpoint. */
  async moves({ pool, at, finished, sleep, token }: Stand) {
    const move = async (permit: AnyPermit) => {
      const runs = [permit.runId];
      const same = [(await permit.yield(() => undefined)) === permit];
      runs.push(permit.runId);
      const own = permit.token;
      const tokens = [token() === tokenOf(permit) && token() === String(own) && permit.token === own];
      at(permit);
      while (permit.runId === runs[1]) {
        await sleep(100);
        same.push((await permit.checkpoint()) === permit);
      }
      runs.push(permit.runId);
      tokens.push(token() === tokenOf(permit) && token() === String(permit.token));
      at(permit);
      await finished();
      return { runs, tokens, isSame: !same.includes(false), isHeld: permit.isHeld };
    };
    return await pool.withPermit(move, {
      priority: { priorityKey: 4 },
      preemptible: { grace: '5 minutes', atCheckpoints: true },
    });
  },
};

export type Use = keyof typeof uses;
export type Given<Name extends Use> = Awaited<ReturnType<(typeof uses)[Name]>>;
