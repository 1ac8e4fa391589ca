import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import Table from 'cli-table3';
import { PERMIT_WORKFLOW, RELEASE } from '@/shared/protocol';
import { type Permit, SemaphoreClient } from '../src/client';
import { type Bench, median, ms, quantile, withBench } from './support';

/** `pnpm bench:client`: what a permit outside Workflows costs beside a bare start, and a hand-off beside polling. */
const ACQUIRES = 200;
const HAND_OFFS = 40;
const POLL_EVERY_MS = 1_000;

async function timed(act: () => Promise<unknown>): Promise<number> {
  const startedMs = performance.now();
  await act();
  return performance.now() - startedMs;
}

/** Nobody else wants the slot. One after the other, in turn, so that both see the same machine. */
async function uncontended({ client, taskQueue }: Bench): Promise<void> {
  const semaphore = new SemaphoreClient(client, `alone-${randomUUID()}`, { capacity: 1, taskQueue });
  const workflowId = `bare-${randomUUID()}`;
  const acquires: number[] = [];
  const starts: number[] = [];
  const acquire = async () => {
    let permit: Permit | undefined;
    acquires.push(await timed(async () => (permit = await semaphore.acquire())));
    await permit?.release();
  };
  // What the acquire sends too, so that the difference is the library's own.
  const input = { leaseMs: 30_000, holder: { identity: client.options.identity }, claimId: randomUUID() };
  const options = {
    workflowId,
    taskQueue,
    args: [input],
    memo: input,
    staticSummary: 'bare',
    workflowExecutionTimeout: '24h',
  } as const;
  const start = async () => {
    starts.push(await timed(() => client.workflow.start(PERMIT_WORKFLOW, options)));
    const bare = client.workflow.getHandle(workflowId);
    await bare.signal(RELEASE);
    await bare.result();
  };
  for (let round = 0; round < ACQUIRES; round++) {
    for (const act of round % 2 ? [acquire, start] : [start, acquire]) await act();
  }
  const table = new Table({ head: [`${ACQUIRES} of each, in turn`, 'acquire', 'bare workflow.start', 'ratio'] });
  for (const [name, q] of [['median', 0.5] as const, ['95th percentile', 0.95] as const]) {
    const [acquire, start] = [quantile(acquires, q), quantile(starts, q)];
    table.push([name, ms(acquire), ms(start), (acquire / start).toFixed(2)]);
  }
  console.log(table.toString());
}

/** One holds while the other waits. From the first's call of `release` to the other's permit. */
async function handOffs(bench: Bench): Promise<void> {
  const parking: number[] = [];
  const polling: number[] = [];
  for (let round = 0; round < HAND_OFFS; round++) {
    parking.push(await handOff(bench, (pool) => pool.acquire()));
    polling.push(await handOff(bench, poll));
  }
  const table = new Table({ head: [`${HAND_OFFS} hand-offs of each, in turn`, 'parking', 'polling (1 s)', 'ratio'] });
  table.push(['median', ms(median(parking)), ms(median(polling)), (median(polling) / median(parking)).toFixed(2)]);
  console.log(table.toString());
}

async function handOff(
  { client, taskQueue }: Bench,
  wait: (pool: SemaphoreClient) => Promise<Permit>,
): Promise<number> {
  const semaphore = new SemaphoreClient(client, `hand-off-${randomUUID()}`, { capacity: 1, taskQueue });
  const first = await semaphore.acquire();
  const second = wait(semaphore);
  await delay(500 + Math.random() * POLL_EVERY_MS); // any moment between two polls
  const startedMs = performance.now();
  const handedOver = second.then(() => performance.now() - startedMs);
  await first.release();
  await (await second).release();
  return await handedOver;
}

async function poll(pool: SemaphoreClient): Promise<Permit> {
  for (;;) {
    const permit = await pool.tryAcquire();
    if (permit) return permit;
    await delay(POLL_EVERY_MS);
  }
}

async function main(): Promise<void> {
  await withBench(async (bench) => {
    await uncontended(bench);
    await handOffs(bench);
  });
}

main().catch((error: unknown) => {
  console.error(error);
  process.exitCode = 1;
});
