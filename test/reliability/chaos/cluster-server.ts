import { type Cluster, NODES, type NodeName, startCluster } from '../../../scripts/support/cluster';
import type { Fault } from './faults';
import { type ChaosServer, CONTINUE_AS_NEW_AFTER } from './server';

/** Two server processes on a PostgreSQL of our own, of which any part, or all, is killed, stopped and started again. */
export async function clusterServer(progress: (line: string) => void): Promise<ChaosServer> {
  const dynamicConfig = { 'limit.historyCount.suggestContinueAsNew': [{ value: CONTINUE_AS_NEW_AFTER }] };
  const cluster = await startCluster({ dynamicConfig, progress });
  const parts = new Parts(cluster);
  return {
    address: cluster.address,
    described: 'a cluster of two nodes on PostgreSQL',
    faults: clusterFaults(parts),
    heal: () => parts.mendAll(),
    stop: () => cluster.stop(),
  };
}

type Part = NodeName | 'postgres';

/** Which parts are broken, and how each is mended. A part is broken by one fault at a time. */
class Parts {
  private readonly broken = new Map<Part, () => Promise<void>>();

  constructor(readonly cluster: Cluster) {}

  isBroken(part: Part): boolean {
    return this.broken.has(part);
  }

  async break(part: Part, how: () => Promise<void> | void, mend: () => Promise<void> | void): Promise<void> {
    this.broken.set(part, async () => await mend());
    await how();
  }

  async mend(part: Part): Promise<void> {
    const mend = this.broken.get(part);
    await mend?.();
    this.broken.delete(part);
  }

  async mendAll(): Promise<void> {
    // A node does not start without its database.
    for (const part of ['postgres', ...NODES] as const) await this.mend(part);
  }
}

/** While a node is away or its shards move, not every Workflow is served: for L2 that is an outage of the server. */
function clusterFaults(parts: Parts): Fault[] {
  const { cluster } = parts;
  const hit = (
    kind: string,
    lastsMs: Fault['lastsMs'],
    victims: (luck: number) => readonly Part[],
    how: (part: Part) => Promise<void> | void,
    mend: (part: Part) => Promise<void> | void,
  ): Fault => ({
    kind,
    weight: 1,
    lastsMs,
    async inject({ outage }, { luck }) {
      const hits = victims(luck[0]).filter((part) => !parts.isBroken(part));
      if (hits.length === 0) return undefined;
      const over = outage('*');
      await Promise.all(
        hits.map((part) =>
          parts.break(
            part,
            () => how(part),
            () => mend(part),
          ),
        ),
      );
      return {
        target: hits.join(' and '),
        async heal() {
          for (const part of hits) await parts.mend(part);
          over();
        },
      };
    },
  });
  const one = (luck: number) => NODES.slice(luck < 0.5 ? 0 : 1).slice(0, 1);
  const kill = (part: Part) => cluster.killNode(part as NodeName);
  const start = (part: Part) => cluster.startNode(part as NodeName);
  return [
    hit('kill-node', [1_000, 15_000], one, kill, start),
    hit('leave-node', [1_000, 15_000], one, (part) => cluster.killNode(part as NodeName, 'SIGTERM'), start),
    hit(
      'pause-node',
      [1_000, 12_000],
      one,
      (part) => cluster.pauseNode(part as NodeName),
      (part) => cluster.resumeNode(part as NodeName),
    ),
    hit('kill-both-nodes', [500, 4_000], () => NODES, kill, start),
    hit(
      'stop-postgres',
      [500, 5_000],
      () => ['postgres'],
      () => cluster.stopPostgres(),
      () => cluster.startPostgres(),
    ),
    hit(
      'kill-postgres',
      [500, 5_000],
      () => ['postgres'],
      () => cluster.stopPostgres('crash'),
      () => cluster.startPostgres(),
    ),
  ];
}
