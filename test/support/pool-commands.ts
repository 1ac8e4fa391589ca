import assert from 'node:assert/strict';
import fc from 'fast-check';
import { type Permit, PermitLostError, type SemaphoreClient } from '../../src/client';
import { operatorOf } from './operators';
import { eventually, until } from './temporal';

/** How many slots the pool is deployed with. */
export const CAPACITY = 2;

/** What must be true of the pool: which slots are held, who waits, and what an operator has set. */
interface Model {
  held: Set<string>;
  waiting: number;
  capacity: number;
  paused: boolean;
}

/** The real pool, and what this process holds and waits for. All waiters are `fair`, so they are served as they came. */
interface Real {
  pool: SemaphoreClient;
  permits: Map<string, Permit>;
  waiters: { permit: Promise<Permit | undefined>; stop: AbortController }[];
}

type Command = fc.AsyncCommand<Model, Real>;

export function newModel(): Model {
  return { held: new Set(), waiting: 0, capacity: CAPACITY, paused: false };
}

function free({ held, capacity, paused }: Model): number {
  return paused ? 0 : Array.from({ length: capacity }, (_, slot) => `${slot}`).filter((slot) => !held.has(slot)).length;
}

function keep(model: Model, real: Real, permit: Permit): void {
  const { slot } = permit;
  assert.ok(!model.held.has(slot), `slot ${slot} was given twice`);
  assert.ok(!model.paused && Number(slot) < model.capacity, `slot ${slot} is out of use`);
  model.held.add(slot);
  real.permits.set(slot, permit);
}

/** Those who come first get what is free; then the server's own view must be the model's. */
async function settle(model: Model, real: Real): Promise<void> {
  while (model.waiting > 0 && free(model) > 0) {
    model.waiting--;
    const permit = await real.waiters.shift()?.permit;
    assert.ok(permit, 'a waiter that nobody stopped is served');
    keep(model, real, permit);
  }
  await eventually(async () => {
    const { slots, waiters, override } = await operatorOf(real.pool).inspect();
    const at = (state: string) => slots.filter((slot) => slot.state === state).map(({ slot }) => slot);
    assert.deepEqual(at('held').sort(), [...model.held].sort());
    assert.equal(waiters.length, model.waiting);
    assert.equal(override?.paused ?? false, model.paused);
    const outOfUse = slots.map(({ slot }) => slot).filter((slot) => model.paused || Number(slot) >= model.capacity);
    const idle = outOfUse.filter((slot) => Number(slot) < CAPACITY && !model.held.has(slot));
    for (const slot of idle) assert.ok(at('drained').includes(slot), `slot ${slot} is out of use, and not drained`);
    assert.equal(at('drained').filter((slot) => !outOfUse.includes(slot)).length, 0, 'what is in use again is free');
  });
}

function command(
  name: string,
  run: (model: Model, real: Real) => Promise<void>,
  may: (model: Model) => boolean = () => true,
) {
  return {
    check: may,
    run: async (model: Model, real: Real) => {
      await run(model, real);
      await settle(model, real);
    },
    toString: () => name,
  } satisfies Command;
}

/** One of those held. */
function oneOf(real: Real, pick: number): Permit {
  const permits = [...real.permits.values()];
  return permits[pick % permits.length] as Permit;
}

function forget(model: Model, real: Real, { slot }: Permit): void {
  model.held.delete(slot);
  real.permits.delete(slot);
}

const isHeld = ({ held }: Model) => held.size > 0;

/** All that callers and operators do to a pool, in any order. */
export function commands(terminate: (permit: Permit) => Promise<void>) {
  const picking = (make: (pick: number) => Command) => fc.nat(20).map(make);
  const lose = (how: string, end: (real: Real, permit: Permit) => Promise<unknown>) =>
    picking((pick) =>
      command(
        `${how}(${pick})`,
        async (model, real) => {
          const permit = oneOf(real, pick);
          await end(real, permit);
          await eventually(async () => assert.ok(permit.signal.aborted, 'its holder is told'));
          assert.ok(permit.signal.reason instanceof PermitLostError);
          forget(model, real, permit);
        },
        isHeld,
      ),
    );
  return fc.commands(
    [
      fc.constant(
        command('try', async (model, real) => {
          // Where an operator has added slots, a queue runs: in strict order it lines up there, and so gets these slots too.
          const isFree = free(model) > 0;
          let permit = await real.pool.tryAcquire();
          // While a queue runs, a turn that a slow machine brings too late is no turn.
          if (isFree) await until(async () => (permit ??= await real.pool.tryAcquire()));
          assert.equal(permit !== undefined, isFree);
          if (permit) keep(model, real, permit);
        }),
      ),
      fc.constant(
        command(
          'wait',
          async (model, real) => {
            const stop = new AbortController();
            const permit = real.pool.acquire({ signal: stop.signal }).catch((error: unknown) => {
              if (stop.signal.aborted) return undefined;
              throw error;
            });
            real.waiters.push({ permit, stop });
            model.waiting++;
          },
          ({ waiting }) => waiting < 4,
        ),
      ),
      picking((pick) =>
        command(
          `give up(${pick})`,
          async (model, real) => {
            const [waiter] = real.waiters.splice(pick % real.waiters.length, 1);
            waiter?.stop.abort();
            assert.equal(await waiter?.permit, undefined);
            model.waiting--;
          },
          ({ waiting }) => waiting > 0,
        ),
      ),
      picking((pick) =>
        command(
          `release(${pick})`,
          async (model, real) => {
            const permit = oneOf(real, pick);
            await permit.release();
            assert.equal(permit.signal.aborted, false);
            forget(model, real, permit);
          },
          isHeld,
        ),
      ),
      picking((pick) =>
        command(`renew(${pick})`, async (_model, real) => void (await oneOf(real, pick).renew()), isHeld),
      ),
      lose('revoke', async ({ pool }, { slot, runId }) => await operatorOf(pool).revoke(slot, { runId })),
      lose('terminate', async (_real, permit) => await terminate(permit)),
      fc.integer({ min: 1, max: CAPACITY + 1 }).map((capacity) =>
        command(`resize(${capacity})`, async (model, { pool }) => {
          await operatorOf(pool).resize(capacity);
          model.capacity = capacity;
        }),
      ),
      fc.boolean().map((paused) =>
        command(paused ? 'pause' : 'resume', async (model, { pool }) => {
          await (paused ? operatorOf(pool).pause() : operatorOf(pool).resume());
          model.paused = paused;
        }),
      ),
    ],
    { maxCommands: 20, size: 'max' },
  );
}

/** Everybody goes, and nothing is set any more. */
export async function cleanUp({ pool, permits, waiters }: Real): Promise<void> {
  for (const { stop } of waiters) stop.abort();
  const late = await Promise.all(waiters.map(({ permit }) => permit));
  await Promise.all([...permits.values(), ...late].map((permit) => permit?.release()));
  await operatorOf(pool).resume();
  await operatorOf(pool).resize(CAPACITY);
}
