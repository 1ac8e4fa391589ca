import { randomUUID } from 'node:crypto';
import { queueId } from '@/shared/permit-id';
import {
  type HoldInterval,
  mostAtOnce,
  overlaps,
  permitsQuery,
  readHoldIntervals,
} from '../scripts/support/holder-intervals';
import { type Bench, untilCounted } from './support';
import type { ConsumerInput } from './workflows';

/** What a load came to, read from the server's histories. */
export interface Outcome {
  makespanMs: number;
  holds: HoldInterval[];
  events: number;
  /** How long each slot was free between two holds while somebody waited. */
  gapsMs: number[];
}

export type Load = Omit<ConsumerInput, 'resource'>;

export type Consumer = 'parkingConsumer' | 'pollingConsumer';

/** Consumers of one pool, all started at once. @throws Error when a promise is broken */
export async function contend(bench: Bench, type: Consumer, consumers: number, input: Load) {
  const resource = `${type}-${randomUUID().slice(0, 8)}`;
  const startedMs = Date.now();
  const handles = await Promise.all(
    Array.from({ length: consumers }, () =>
      bench.client.workflow.start(type, {
        workflowId: `${resource}-${randomUUID()}`,
        taskQueue: bench.taskQueue,
        args: [{ ...input, resource }],
      }),
    ),
  );
  await Promise.all(handles.map((handle) => handle.result()));
  const makespanMs = Date.now() - startedMs;

  await untilCounted(bench.client, `${permitsQuery(resource)} AND ExecutionStatus != "Running"`, consumers);
  const holds = await readHoldIntervals(bench.client, resource);
  if (holds.length !== consumers || mostAtOnce(holds) > input.capacity || overlaps(holds).length > 0) {
    throw new Error(`${type} broke its promise: ${holds.length} holds, ${mostAtOnce(holds)} at once`);
  }
  const startedAt = new Map<string, number>();
  let events = 0;
  for (const handle of handles) {
    const { historyLength, startTime } = await handle.describe();
    events += historyLength ?? 0;
    startedAt.set(handle.workflowId, startTime.getTime());
  }
  events += await eventsOf(bench, permitsQuery(resource));
  events += await eventsOf(bench, `WorkflowId = "${queueId(resource)}"`);
  const waits = holds.map(({ holder, fromMs }) => ({ fromMs: startedAt.get(holder) ?? 0, toMs: fromMs }));
  return { makespanMs, holds, events, gapsMs: gapsWithWaiters(holds, waits) } satisfies Outcome;
}

/** History events of all runs that `query` finds, running or closed. */
export async function eventsOf({ client }: Bench, query: string): Promise<number> {
  let events = 0;
  for await (const { workflowId, runId } of client.workflow.list({ query })) {
    events += (await client.workflow.getHandle(workflowId, runId).describe()).historyLength ?? 0;
  }
  return events;
}

/**
 * For each two holds that follow each other on one slot: how long the slot was free while somebody waited, from the first
 * holder's release command to the event that told the next of its claim.
 */
function gapsWithWaiters(holds: HoldInterval[], waits: { fromMs: number; toMs: number }[]): number[] {
  const gaps: number[] = [];
  const bySlot = new Map<string, HoldInterval[]>();
  for (const hold of [...holds].sort((a, b) => a.fromMs - b.fromMs)) {
    bySlot.set(hold.slot, [...(bySlot.get(hold.slot) ?? []), hold]);
  }
  for (const slotHolds of bySlot.values()) {
    for (const [index, next] of slotHolds.entries()) {
      const before = slotHolds[index - 1];
      // Whoever took the slot waited until then, so its wait covers the end of the gap; others may cover more of it.
      const waitedFromMs = Math.min(...waits.filter(({ toMs }) => toMs >= next.fromMs).map(({ fromMs }) => fromMs));
      if (before) gaps.push(next.fromMs - Math.max(before.toMs, waitedFromMs));
    }
  }
  return gaps;
}
