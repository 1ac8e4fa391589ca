import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { Client } from '@temporalio/client';
import { timeMs } from '../../scripts/support/history-events';
import { mostAtOnce, overlaps, type ReportedHold, readHoldIntervals } from '../../scripts/support/holder-intervals';
import { SemaphoreClient } from '../../src/client';
import * as workflows from './workflows';

/** When each thing of one kind was got, in epoch milliseconds. */
export interface Series {
  kind: 'slot' | 'bare child' | 'bare start' | 'bare signal';
  atMs: number[];
}

export interface Load {
  /** The prefix of the IDs of all its Workflows but permits, queues and waiters. */
  readonly id: string;
  readonly resources: readonly string[];
  /** Ends the load, checks that no slot had two holders, and tells what was got when. */
  stop(): Promise<Series[]>;
}

const POOLS = 4;
const CAPACITY = 2;
/** Of each pool. */
const HOLDERS = { workflows: 4, clients: 1 };
const BARE = { children: 8, starts: 1, signals: 1 };
const HOLD_MS = 400;
/** Between two bare starts, or signals: they are to measure the server, and not to load it. */
const BARE_EVERY_MS = 100;

/** Holders on a few pools, and beside them the bare steps that they rest on, for as long as they are let. */
export async function startLoad(client: Client, taskQueue: string): Promise<Load> {
  const id = `failover-${randomUUID().slice(0, 8)}`;
  const resources = Array.from({ length: POOLS }, (_, index) => `${id}-${index}`);
  const stopped = new AbortController();
  const running = () => !stopped.signal.aborted;

  const started = (type: () => Promise<void>, args: unknown[]) =>
    client.workflow.start(type as (...args: unknown[]) => Promise<void>, {
      workflowId: `${id}-${type.name}-${randomUUID()}`,
      taskQueue,
      args,
    });
  const holders = await Promise.all(
    resources.flatMap((resource) =>
      Array.from({ length: HOLDERS.workflows }, () =>
        started(workflows.holderLoop as never, [resource, CAPACITY, HOLD_MS]),
      ),
    ),
  );
  const bare = await Promise.all(
    Array.from({ length: BARE.children }, () => started(workflows.bareLoop as never, [HOLD_MS])),
  );

  const reported = new Map(resources.map((resource) => [resource, [] as ReportedHold[]]));
  const clients = resources.flatMap((resource) =>
    Array.from({ length: HOLDERS.clients }, async () => {
      const semaphore = new SemaphoreClient(client, resource, { capacity: CAPACITY, taskQueue });
      while (running()) {
        const permit = await semaphore.acquire();
        const hold: ReportedHold = { runId: permit.runId, fromMs: Date.now() };
        reported.get(resource)?.push(hold);
        permit.signal.addEventListener('abort', () => {
          hold.toMs ??= Date.now();
        });
        await delay(HOLD_MS);
        hold.toMs ??= Date.now();
        await permit.release();
      }
    }),
  );
  const starts = Array.from({ length: BARE.starts }, () =>
    series('bare start', running, async () => {
      const handle = await client.workflow.start(workflows.bareChild, {
        workflowId: `${id}-bareStart-${randomUUID()}`,
        taskQueue,
      });
      void handle.signal(workflows.end).catch(() => undefined); // it may get lost: these Workflows end with the cluster
    }),
  );
  const signals = Array.from({ length: BARE.signals }, async () => {
    // The signal's target lies in one shard for ever, so this loop visits several in turn.
    const targets = await Promise.all(Array.from({ length: 8 }, () => started(workflows.bareChild, [])));
    let turn = 0;
    return await series('bare signal', running, async () => {
      await targets[turn++ % targets.length]?.signal('unknown');
    });
  });

  return {
    id,
    resources,
    async stop() {
      stopped.abort();
      const got = await Promise.all([...starts, ...signals]);
      await Promise.all([...holders, ...bare].map((handle) => persistently(() => handle.signal(workflows.stop))));
      await Promise.all([...clients, ...[...holders, ...bare].map((handle) => handle.result())]);
      for (const resource of resources) {
        const holds = await readHoldIntervals(client, resource, { reported: reported.get(resource) });
        if (overlaps(holds).length > 0 || mostAtOnce(holds) > CAPACITY) {
          throw new Error(`${resource}: ${mostAtOnce(holds)} permits at once, ${overlaps(holds).length} overlaps`);
        }
        for (const slot of new Set(holds.map((hold) => hold.slot))) {
          const own = holds.filter((hold) => hold.slot === slot);
          got.push({ kind: 'slot', atMs: own.map(({ fromMs }) => fromMs).sort((a, b) => a - b) });
        }
      }
      for (const handle of bare) {
        const { events } = await handle.fetchHistory();
        const known = (events ?? []).filter((event) => event.childWorkflowExecutionStartedEventAttributes);
        got.push({ kind: 'bare child', atMs: known.map(timeMs) });
      }
      return got;
    },
  };
}

/** Does it again and again, and notes when it was done. A failure is tried again: the SDK itself tries for ten seconds. */
async function series(kind: Series['kind'], running: () => boolean, act: () => Promise<void>): Promise<Series> {
  const atMs: number[] = [];
  while (running()) {
    await act().then(
      () => atMs.push(Date.now()),
      () => undefined,
    );
    await delay(BARE_EVERY_MS);
  }
  return { kind, atMs };
}

async function persistently(act: () => Promise<void>): Promise<void> {
  for (let attempt = 0; ; attempt++) {
    try {
      return await act();
    } catch (error) {
      if (attempt > 20) throw error;
      await delay(500);
    }
  }
}
