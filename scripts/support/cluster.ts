import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Connection } from '@temporalio/client';
import { startBalancer } from './cluster/balancer';
import { clusterBinaries, SERVER_VERSION } from './cluster/binaries';
import { makeDatabases, shardOwners } from './cluster/database';
import { ClusterNode } from './cluster/node';
import { type NodeConfig, PORTS_PER_NODE } from './cluster/node-config';
import { freePorts } from './cluster/ports';
import { type PostgresEnd, PostgresProcess } from './postgres/process';
import { checkPortIsFree } from './server-process';
import { makeNamespace } from './temporal-server';

export const NODES = ['A', 'B'] as const;

export type NodeName = (typeof NODES)[number];

/** A Temporal cluster on loopback, as a company runs one, of which each part can be made to fail. All dies with this process. */
export interface Cluster {
  /** Of the balancer before the nodes' frontends, as `host:port`. */
  readonly address: string;
  /** The directory with each node's `log`; it goes when the cluster stops. */
  readonly directory: string;
  /** SIGKILL is a crash. With SIGTERM the node leaves in order: its shards go to the other one first. */
  killNode(name: NodeName, signal?: 'SIGTERM' | 'SIGKILL'): Promise<void>;
  /** Resolves when its frontend answers. */
  startNode(name: NodeName): Promise<void>;
  /** Stops its clock (SIGSTOP), with all connections open. */
  pauseNode(name: NodeName): void;
  resumeNode(name: NodeName): void;
  /** `crash` ends it by SIGKILL. Nothing that was committed is lost either way. @default 'fast' */
  stopPostgres(how?: PostgresEnd): Promise<void>;
  startPostgres(): Promise<void>;
  /** How many of the 64 shards each node has taken last. */
  shards(): Promise<Record<NodeName, number>>;
  stop(): Promise<void>;
}

export interface ClusterOptions {
  /** The balancer's. @default a free one */
  port?: number;
  dynamicConfig?: NodeConfig['dynamicConfig'];
  /** A tag of the Go module `go.temporal.io/server`. @default v1.29.1 */
  version?: string;
  progress?: (line: string) => void;
}

/** What a commit has told must outlive a crash. */
const POSTGRES_SETTINGS = ['fsync=on', 'synchronous_commit=on', 'max_connections=300', 'shared_buffers=256MB'];

const NAMESPACE = 'default';

/**
 * Starts PostgreSQL and two server processes, each with frontend, history and matching service, in one membership ring, and a
 * TCP balancer before their frontends. Resolves when Workflows can be started there.
 * @throws Error that says what is missing on this machine
 */
export async function startCluster({
  port,
  dynamicConfig = {},
  version = SERVER_VERSION,
  progress = () => {},
}: ClusterOptions = {}): Promise<Cluster> {
  if (port) await checkPortIsFree(port, 'the cluster');
  const binaries = await clusterBinaries(version, progress);
  const firstPort = await freePorts(2 + NODES.length * PORTS_PER_NODE);
  const [balancerPort, postgresPort, firstNodePort] = [port ?? firstPort, firstPort + 1, firstPort + 2];
  const directory = await mkdtemp(join(tmpdir(), 'permit-cluster-'));
  const cleanUps = [async () => await rm(directory, { recursive: true, force: true })];
  const stop = async () => {
    for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp();
  };
  try {
    progress('PostgreSQL starts …');
    const postgres = await PostgresProcess.create({ settings: POSTGRES_SETTINGS, port: postgresPort });
    cleanUps.push(() => postgres.dispose());
    await postgres.start();
    await makeDatabases(postgres, binaries.sql);

    const nodes = NODES.map((name, index) => {
      const config = { firstPort: firstNodePort + index * PORTS_PER_NODE, postgresPort, dynamicConfig };
      return new ClusterNode(name, binaries.server, join(directory, name), config, index === 0);
    });
    cleanUps.push(async () => void (await Promise.all(nodes.map((node) => node.stop()))));
    for (const node of nodes) {
      progress(`Node ${node.name} starts …`);
      await node.start();
    }
    const balancer = await startBalancer(
      balancerPort,
      nodes.map((node) => node.frontendPort),
    );
    cleanUps.push(() => balancer.close());
    await makeOwnNamespace(balancer.address);

    const named = (name: NodeName) => nodes[NODES.indexOf(name)] as ClusterNode;
    return {
      address: balancer.address,
      directory,
      killNode: (name, signal) => named(name).stop(signal),
      startNode: (name) => named(name).start(),
      pauseNode: (name) => named(name).pause(),
      resumeNode: (name) => named(name).resume(),
      stopPostgres: (how) => postgres.stop(how),
      startPostgres: () => postgres.start(),
      async shards() {
        const owners = await shardOwners(postgres);
        const of = (name: NodeName) => owners.get(named(name).historyAddress) ?? 0;
        return { A: of('A'), B: of('B') };
      },
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** Makes the cluster's own namespace. */
async function makeOwnNamespace(address: string): Promise<void> {
  const connection = await Connection.connect({ address });
  await makeNamespace(connection, NAMESPACE).finally(() => connection.close());
}
