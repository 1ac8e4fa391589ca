// A test that hangs fails by a limit, and says what it waited for. So does a process that goes on after its last test.
import { after, afterEach, beforeEach, type TestContext } from 'node:test';

/** Those of Node: a test that mocks the time would leave its limit running when it ends. */
const { setTimeout, clearTimeout } = globalThis;

/** How long one test may take, also on a busy machine. `scripts/test.ts` gives slow tests more. */
const LIMIT_MS = Number(process.env.TEST_LIMIT_MS || 180_000);

/** How long the process may go on after its last test: one that failed may leave something behind, such as a renewed permit. */
const LEFT_RUNNING_MS = 60_000;

/** Says what it waits for at the moment, if anything. */
type Wait = () => string | undefined | Promise<string | undefined>;

const waits = new Set<Wait>();
const timers = new Map<string, NodeJS.Timeout>();

/** Has the limit of every test of this process tell of this. */
export function toldAtAnyLimit(wait: Wait): void {
  waits.add(wait);
}

/** Has the limit tell of this, while `waiting` goes on. */
export async function toldAtLimit<T>(wait: Wait, waiting: () => Promise<T>): Promise<T> {
  waits.add(wait);
  try {
    return await waiting();
  } finally {
    waits.delete(wait);
  }
}

beforeEach((context) => {
  const { name } = context as TestContext;
  const timer = setTimeout(() => void endHung(name), LIMIT_MS);
  timer.unref();
  timers.set(name, timer);
});

afterEach((context) => {
  const { name } = context as TestContext;
  clearTimeout(timers.get(name));
  timers.delete(name);
});

after(() => {
  setTimeout(() => {
    console.error(`Something still runs ${LEFT_RUNNING_MS / 1_000} s after the last test of ${process.argv[1]}.`);
    process.exit(1);
  }, LEFT_RUNNING_MS).unref();
});

async function endHung(name: string): Promise<void> {
  const told = await Promise.all([...waits].map(async (wait) => await wait()));
  const lines = told.flatMap((line) => line ?? []).map((line) => `  waits for ${line}`);
  console.error([`Test "${name}" has not ended within ${LIMIT_MS / 1_000} s.`, ...lines].join('\n'));
  process.exit(1);
}
