import { ApplicationFailure, CancellationScope, defineQuery, setHandler, sleep } from '@temporalio/workflow';
import { Semaphore } from '../../scripts/support/own-queue-semaphore';
import { type Permit, PermitLostError, withPermits } from '../../src/workflow';
import { finishes, marked, type PoolInput } from './finishing';

/** What has happened to a holder, in order. */
export const steps = defineQuery<Step[]>('steps');

export interface Step {
  step: 'holds' | 'told' | 'stopped' | 'replaced' | 'yielded' | 'back';
  slot?: string;
  runId?: string;
}

export interface PreemptibleInput extends PoolInput {
  /** Pre-empted, the caller asks for a permit again: for the same work, or for other work. */
  onPreempted?: 'again' | 'replacement';
  /**
   * `wait`: until it is told to finish; the default. `stubborn`: the same, and it ignores its cancellation. `finishing`: cancelled,
   * it returns. `checkpoints`: it passes one each 100 ms. `yielding`: it yields while it waits for `finish`.
   */
  body?: 'wait' | 'stubborn' | 'finishing' | 'checkpoints' | 'yielding';
}

/** Holds a permit that others may take, and tells what happens to it. */
export async function preemptible({
  resource,
  semaphore,
  acquire,
  onPreempted,
  body,
}: PreemptibleInput): Promise<string> {
  const log: Step[] = [];
  setHandler(steps, () => log);
  const finished = finishes();
  let isFinished = false;
  void finished().then(() => {
    isFinished = true;
  });
  const note = (step: Step['step'], permit?: Permit) => log.push({ step, slot: permit?.slot, runId: permit?.runId });

  const run = async (permit: Permit): Promise<string> => {
    note('holds', permit);
    if (body === 'checkpoints') return await passCheckpoints(permit);
    if (body === 'yielding') {
      await permit.yield(async () => {
        note('yielded');
        await finished();
      });
      note('back', permit);
      return 'back';
    }
    void permit.preempted.then(() => note('told', permit));
    return await marked(permit.runId, async () => {
      try {
        if (body === 'stubborn') await CancellationScope.nonCancellable(finished);
        else await finished();
        return 'finished';
      } catch (error) {
        note('stopped', permit);
        if (body === 'finishing') return 'returned';
        throw error;
      }
    });
  };

  const passCheckpoints = async (permit: Permit): Promise<string> => {
    while (!isFinished) {
      await sleep(100);
      const { runId } = permit;
      await permit.checkpoint();
      if (permit.runId !== runId) note('back', permit);
    }
    return 'finished';
  };

  const replace = async (permit: Permit): Promise<string> => {
    note('replaced', permit);
    return 'replaced';
  };
  const pool = new Semaphore(resource, semaphore);
  for (let work = run; ; work = onPreempted === 'again' ? run : replace) {
    try {
      return await pool.withPermit(work, acquire);
    } catch (error) {
      if (!(onPreempted && error instanceof PermitLostError && error.how === 'preempted')) throw error;
    }
  }
}

/** Takes a permit by `acquire`, and gives it back when `preempted` says so. */
export async function obliging({ resource, semaphore, acquire }: PoolInput): Promise<string> {
  const log: Step[] = [];
  setHandler(steps, () => log);
  const permit = await new Semaphore(resource, semaphore).acquire(acquire);
  log.push({ step: 'holds', slot: permit.slot, runId: permit.runId });
  const error = await permit.preempted;
  await permit.release();
  return `${error.name}: ${error.how}`;
}

/** Makes bad use of pre-emption, and tells how each was refused. */
export async function misuser(resource: string): Promise<string[]> {
  const semaphore = new Semaphore(resource, { capacity: 2, lease: '30s' });
  const priority = { priorityKey: 3 };
  const nothing = async () => undefined;
  const preemptible = { grace: '10s' } as const;
  const tries = [
    () => semaphore.acquire({ preempt: true }),
    () => semaphore.acquire({ preemptible }),
    () => semaphore.acquire({ preemptible: { grace: '31s' }, priority }),
    () => semaphore.acquire({ preemptible: {} as typeof preemptible, priority }),
    () => semaphore.acquire({ preemptible: true as never, priority }),
    () => semaphore.tryAcquire({ preempt: true, priority }),
    () => withPermits([{ of: semaphore, permits: 2 }], nothing, { preemptible, priority } as object),
    () => withPermits([{ of: semaphore, permits: 2 }], nothing, { preempt: true, priority } as object),
    () => new Semaphore(resource, { capacity: 2, perKey: 1 }).acquire({ key: 'a', preempt: true, priority }),
  ];
  const refusals: string[] = [];
  for (const attempt of tries) {
    refusals.push(
      await attempt().then(
        () => 'taken',
        (error: unknown) => (error instanceof ApplicationFailure ? `${error.type}: ${error.message}` : String(error)),
      ),
    );
  }
  return refusals;
}

/** Of a permit of a set, asks for what only a permit with a place in line can do. */
export async function setYielder({ resource, semaphore }: PoolInput): Promise<string> {
  const pool = new Semaphore(resource, semaphore);
  return await withPermits([{ of: pool, permits: 2 }], async ([[permit]]) => {
    const refused = await permit?.yield(async () => undefined).catch((error: unknown) => String(error));
    await permit?.renew(); // it is still held
    return String(refused);
  });
}

/** Passes so many checkpoints under a permit that others may take, and nobody asks for it. */
export async function unasked({ resource, semaphore, acquire }: PoolInput, checkpoints: number): Promise<boolean> {
  return await new Semaphore(resource, semaphore).withPermit(async (permit) => {
    const { runId } = permit;
    for (let n = 0; n < checkpoints; n++) if ((await permit.checkpoint()) !== permit) return false;
    return permit.runId === runId;
  }, acquire);
}
