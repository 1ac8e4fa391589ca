import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { SemaphoreClient } from '@/client';
import { permitId } from '@/shared/permit-id';
import { permitsQuery } from '../scripts/support/holder-intervals';
import { type Row, row } from './report';
import { type Bench, median, untilCounted } from './support';
import type { Held } from './workflows';

const ROUNDS = 5;

/** Until the queue watches the permit. */
const WATCHED_MS = 2_000;

/** After how long holders are terminated together with their permits. The queue looks once in about ten seconds then, so each meets another gap. */
const HOLDS_MS = [20_000, 21_000, 22_000, 23_000, 24_000];

/** `pnpm bench losses`: from the termination of a permit, or of a holder with its permit, to the next hold. */
export async function losses(bench: Bench): Promise<Row[]> {
  const ofWorkflows: number[] = [];
  const ofClients: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    ofWorkflows.push(await afterWorkflow(bench, WATCHED_MS, (resource) => terminatePermit(bench, resource)));
    ofClients.push(await afterClient(bench));
  }
  const together = await Promise.all(
    HOLDS_MS.map((holdMs) =>
      afterWorkflow(bench, holdMs, async (resource, holder) => {
        await Promise.all([terminatePermit(bench, resource), holder.terminate('bench')]); // so nobody is left to tell the queue
      }),
    ),
  );
  return [
    row('terminated permit of a Workflow to the next holder', ['asked', 500], median(ofWorkflows), 'ms', { atMost: 1 }),
    row('… of a client', ['asked', 500], median(ofClients), 'ms', { atMost: 1 }),
    row('terminated holder of 20 to 24 s, with its permit: the worst', ['asked', 12_000], Math.max(...together), 'ms', {
      atMost: 1,
    }),
  ];
}

function consumer({ client, taskQueue }: Bench, resource: string, holdMs: number) {
  const args = [{ resource, capacity: 1, holdMs }];
  return client.workflow.start('parkingConsumer', { workflowId: `${resource}-${randomUUID()}`, taskQueue, args });
}

async function terminatePermit({ client }: Bench, resource: string): Promise<void> {
  await client.workflow.getHandle(permitId({ resource, slot: '0' })).terminate('bench');
}

/** A Workflow holds. */
async function afterWorkflow(
  bench: Bench,
  heldMs: number,
  terminate: (resource: string, holder: Awaited<ReturnType<typeof consumer>>) => Promise<unknown>,
): Promise<number> {
  const resource = newResource();
  const holder = await consumer(bench, resource, 600_000);
  await untilCounted(bench.client, permitsQuery(resource), 1);
  const gapMs = await untilNextHold(bench, resource, heldMs, () => terminate(resource, holder));
  await holder.terminate('bench').catch(() => undefined); // some were before
  return gapMs;
}

async function afterClient(bench: Bench): Promise<number> {
  const resource = newResource();
  const { client, taskQueue } = bench;
  const permit = await new SemaphoreClient(client, resource, { capacity: 1, taskQueue }).acquire();
  const gapMs = await untilNextHold(bench, resource, WATCHED_MS, () => terminatePermit(bench, resource));
  await permit.release().catch(() => undefined);
  return gapMs;
}

function newResource(): string {
  return `loss-${randomUUID().slice(0, 8)}`;
}

/** Lines up behind the holder. @returns how long after the termination the waiter holds */
async function untilNextHold(bench: Bench, resource: string, heldMs: number, terminate: () => Promise<unknown>) {
  const waiter = await consumer(bench, resource, 0);
  await delay(heldMs);
  const endedMs = Date.now();
  await terminate();
  const { fromMs }: Held = await waiter.result();
  return fromMs - endedMs;
}
