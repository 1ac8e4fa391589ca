import {
  condition,
  defineQuery,
  defineSignal,
  proxyActivities,
  proxyLocalActivities,
  setHandler,
} from '@temporalio/workflow';
import { Semaphore } from '../../scripts/support/own-queue-semaphore';
import { FencingToken } from '../../src/fencing-workflow';

export * from '../../src/workflows';

export interface FencedActivities {
  /** The current token, or the name of the error that says there is none. */
  tokenSeen(): Promise<string>;
  /** Has a newer token admitted, and then the current one. */
  admitSeen(newerRunId: string): Promise<void>;
  /** Writes through a fence. */
  write(what: string): Promise<void>;
}

const { tokenSeen, admitSeen } = proxyActivities<FencedActivities>({ startToCloseTimeout: '10s' });
const locally = proxyLocalActivities<FencedActivities>({ startToCloseTimeout: '10s' });

export async function nestedTokens() {
  const before = await tokenSeen();
  const seen = await new Semaphore('outer', { capacity: 1 }).withPermit(async (outer) => {
    const inOuter = await tokenSeen();
    const inOuterLocally = await locally.tokenSeen();
    // What was called outside of the inner permit stays outside, though it goes on while that is held.
    const beside = Promise.resolve().then(tokenSeen);
    return await new Semaphore('inner', { capacity: 1 })
      .withPermit(async (inner) => ({
        outer: String(FencingToken.from(outer)),
        inner: String(FencingToken.from(inner)),
        inOuter,
        inOuterLocally,
        besideInner: await beside,
        inInner: await tokenSeen(),
      }))
      .then(async (found) => ({ ...found, afterInner: await tokenSeen() }));
  });
  const { outer, inner, ...tokens } = seen;
  return { outer, inner, tokens: { before, ...tokens, after: await tokenSeen() } };
}

/** Does not await its `withPermit`. */
export async function forgetful(resource: string): Promise<void> {
  void new Semaphore(resource, { capacity: 1 }).withPermit(async () => await condition(() => false));
}

export async function fencedSteps(newerRunId: string): Promise<void> {
  await new Semaphore('guarded', { capacity: 1 }).withPermit(async () => await admitSeen(newerRunId));
}

const { write } = proxyActivities<FencedActivities>({ startToCloseTimeout: '1s', retry: { initialInterval: 1 } });
const { write: writeTwice } = proxyActivities<FencedActivities>({
  startToCloseTimeout: '1s',
  retry: { initialInterval: 1, maximumAttempts: 2 },
});

/** Writes under one permit: two at once, then one after the other. */
export async function fencedWrites(): Promise<void> {
  await new Semaphore('written', { capacity: 1 }).withPermit(async () => {
    await Promise.all([write('one'), write('other')]);
    await writeTwice('given up').catch(() => undefined);
    await write('next');
  });
}

/** Holds a permit of "held" until told to finish; its token can be asked for. */
export async function holdUntil(): Promise<void> {
  let finished = false;
  setHandler(defineSignal('finish'), () => {
    finished = true;
  });
  await new Semaphore('held', { capacity: 1 }).withPermit(async (permit) => {
    setHandler(defineQuery<string>('token'), () => String(FencingToken.from(permit)));
    await condition(() => finished);
  });
}
