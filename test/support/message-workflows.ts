// Workflows that take messages until they end. What the server has accepted must have come to them by then.
import {
  allHandlersFinished,
  condition,
  continueAsNew,
  defineSignal,
  defineUpdate,
  setHandler,
  sleep,
} from '@temporalio/workflow';
import { Semaphore } from '../../scripts/support/own-queue-semaphore';
import { finish } from './finishing';
import type { HolderInput } from './workflows';

export const add = defineSignal<[number]>('add');
export const ask = defineUpdate<string>('ask');

/** So many messages a run, before it ends as its input says. */
const MOST_IN_A_RUN = 10;

/** Notes what it is told, and returns all of it: of its chain of runs, if it continues as new. */
export async function limitedLedger(input: HolderInput, seen: number[] = []): Promise<number[]> {
  const isFull = takes(seen);
  const isOver = isFinished();
  await condition(() => isOver() || isFull());
  if (input.ending === 'continue-as-new' && !isOver()) await continueAsNew<typeof limitedLedger>(input, seen);
  return [...seen];
}

/** As a {@link limitedLedger} that continues as new, out of a `withPermit` of its own. */
export async function ledgerInside(input: HolderInput, seen: number[] = []): Promise<number[]> {
  const isFull = takes(seen);
  const isOver = isFinished();
  return await new Semaphore(input.resource, input.semaphore).withPermit(async () => {
    await condition(() => isOver() || isFull());
    if (!isOver()) await continueAsNew<typeof ledgerInside>(input, seen);
    return [...seen];
  }, input.acquire);
}

function takes(seen: number[]): () => boolean {
  const before = seen.length;
  setHandler(add, (n) => void seen.push(n));
  return () => seen.length >= before + MOST_IN_A_RUN;
}

/** Answers after a while. Ends when nothing is left to answer, as Temporal's documentation advises. */
export async function limitedDesk(input: HolderInput): Promise<void> {
  let asked = 0;
  setHandler(ask, async () => {
    asked++;
    await sleep(100);
    return 'answered';
  });
  const isOver = isFinished();
  await condition(() => isOver() || asked >= MOST_IN_A_RUN);
  await condition(allHandlersFinished);
  if (input.ending === 'continue-as-new' && !isOver()) await continueAsNew<typeof limitedDesk>(input);
}

function isFinished(): () => boolean {
  let isOver = false;
  setHandler(finish, () => {
    isOver = true;
  });
  return () => isOver;
}
