import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { Client, Connection } from '@temporalio/client';
import { DefaultLogger, NativeConnection, Runtime, Worker } from '@temporalio/worker';
import Table from 'cli-table3';
import { type NodeName, startCluster } from '../scripts/support/cluster';
import { bundleWorkflows } from '../scripts/support/workflow-bundles';
import { type Series, startLoad } from './failover/load';
import { readWaits, type Wait } from './failover/waits';

/**
 * `pnpm bench:failover [rounds]`: kills each node of a cluster in turn while pools are contended for, and tells how long our
 * own grants stood still beside the bare steps that they rest on, and on what the time went.
 */
const CALM_MS = 15_000;
/** How long after a kill the node is started again, and how long after that the next one is killed. */
const DOWN_MS = 20_000;
const BACK_MS = 15_000;
/** Shorter waits than this are not listed. */
const LEAST_WAIT_MS = 1_000;

interface Phase {
  what: string;
  fromMs: number;
  toMs: number;
}

const KINDS = ['slot', 'bare child', 'bare start', 'bare signal'] as const;

async function main(rounds: number): Promise<void> {
  Runtime.install({ logger: new DefaultLogger('ERROR') });
  const cluster = await startCluster({ progress: (line) => console.error(line) });
  try {
    const { address } = cluster;
    const taskQueue = `bench-${randomUUID()}`;
    const [connection, native] = [await Connection.connect({ address }), await NativeConnection.connect({ address })];
    const client = new Client({ connection });
    const workflowBundle = await bundleWorkflows(require.resolve('./failover/workflows'));
    const worker = await Worker.create({
      connection: native,
      workflowBundle,
      taskQueue,
      stickyQueueScheduleToStartTimeout: '1s',
    });
    await worker.runUntil(async () => {
      const load = await startLoad(client, taskQueue);
      await delay(5_000); // until all caches are warm
      const phases: Phase[] = [];
      const phase = async (what: string, act: () => Promise<void>, forMs: number) => {
        const fromMs = Date.now();
        await act();
        await delay(Math.max(0, fromMs + forMs - Date.now()));
        phases.push({ what, fromMs, toMs: Date.now() });
      };
      await phase('calm', async () => {}, CALM_MS);
      for (let round = 0; round < rounds; round++) {
        const node: NodeName = round % 2 ? 'A' : 'B';
        await phase(`kill -9 of ${node}`, () => cluster.killNode(node), DOWN_MS);
        console.error(`${JSON.stringify(await cluster.shards())} shards after the kill of ${node}`);
        await phase(`${node} is back`, () => cluster.startNode(node), BACK_MS);
      }
      const got = await load.stop();
      const queries = [`WorkflowId STARTS_WITH "${load.id}"`, ...load.resources.flatMap(workflowsOf)];
      const waits: Wait[] = [];
      for (const query of queries) waits.push(...(await readWaits(client, query, LEAST_WAIT_MS)));
      report(phases, got, waits);
    });
    await native.close();
    await connection.close();
  } finally {
    await cluster.stop();
  }
}

function table(...head: string[]) {
  return new Table({ head, style: { head: [], border: [] } });
}

function workflowsOf(resource: string): string[] {
  return [`permit:${resource}`, `permit-queue:${resource}`, `permit-waiter:${resource}`].map(
    (prefix) => `WorkflowId STARTS_WITH "${prefix}"`,
  );
}

function report(phases: readonly Phase[], got: readonly Series[], waits: readonly Wait[]): void {
  const standing = table('longest standstill, in s', ...KINDS.map((kind) => `of each ${kind}`));
  for (const { what, fromMs, toMs } of phases) {
    const cells = KINDS.map((kind) =>
      got
        .filter((series) => series.kind === kind)
        .map(({ atMs }) => longestGapMs(atMs, fromMs, toMs))
        .sort((a, b) => b - a)
        .map(seconds)
        .join(' '),
    );
    standing.push([what, ...cells]);
  }
  console.log(standing.toString());
  const causes = table('wait of 1 s or more', 'whose', ...phases.map(({ what }) => what));
  for (const cause of [...new Set(waits.map((wait) => wait.cause))].sort()) {
    for (const whose of ['permit', 'queue', 'waiter', 'holder', 'bare']) {
      const own = waits.filter((wait) => wait.cause === cause && ownerOf(wait.workflowId) === whose);
      if (own.length === 0) continue;
      const cells = phases.map(({ fromMs, toMs }) => {
        const within = own.filter((wait) => wait.toMs > fromMs && wait.toMs <= toMs);
        const longestMs = Math.max(0, ...within.map((wait) => wait.toMs - wait.fromMs));
        return within.length ? `${within.length} × ≤ ${seconds(longestMs)} s` : '';
      });
      causes.push([cause, whose, ...cells]);
    }
  }
  console.log(causes.toString());
}

function ownerOf(workflowId: string): string {
  if (workflowId.startsWith('permit:')) return 'permit';
  if (workflowId.startsWith('permit-queue:')) return 'queue';
  if (workflowId.startsWith('permit-waiter:')) return 'waiter';
  return workflowId.includes('-holderLoop-') ? 'holder' : 'bare';
}

/** The longest time between two of them of which any part lies in the phase. */
function longestGapMs(atMs: readonly number[], fromMs: number, toMs: number): number {
  const all = [fromMs, ...atMs.filter((at) => at > fromMs && at <= toMs), toMs];
  return Math.max(...all.slice(1).map((at, index) => at - (all[index] ?? at)));
}

function seconds(ms: number): string {
  return (ms / 1_000).toFixed(1);
}

main(Number(process.argv[2] ?? 4)).catch((error: unknown) => {
  console.error(error);
  process.exitCode = 1;
});
