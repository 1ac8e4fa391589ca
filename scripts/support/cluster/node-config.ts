import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { HOST } from './ports';

/** Each company chooses the number once, before the first start. Temporal's own advice for small clusters is 512. */
const SHARDS = 64;

const SERVICES = ['frontend', 'history', 'matching', 'worker'] as const;

/** How many ports each node takes. */
export const PORTS_PER_NODE = 2 * SERVICES.length;

export const DATABASES = { main: 'temporal', visibility: 'temporal_visibility' } as const;

export const DATABASE_USER = 'temporal';

export interface NodeConfig {
  /** The first of {@link PORTS_PER_NODE}; that of its frontend. */
  readonly firstPort: number;
  readonly postgresPort: number;
  /** More dynamic config: a list of values for each key, as in Temporal's own files. */
  readonly dynamicConfig: Readonly<Record<string, readonly { value: unknown }[]>>;
}

/**
 * Writes what a node's server reads, `node.yaml` (JSON is YAML), into its directory. All limits are the server's defaults, as
 * nobody changes them before there is a need. Workflow Pause is on: servers before 1.30 ignore the key.
 */
export async function writeNodeConfig(directory: string, config: NodeConfig): Promise<void> {
  const dynamic = join(directory, 'dynamic.yaml');
  await mkdir(directory, { recursive: true });
  const dynamicConfig = { 'frontend.WorkflowPauseEnabled': [{ value: true }], ...config.dynamicConfig };
  await writeFile(dynamic, JSON.stringify(dynamicConfig));
  await writeFile(join(directory, 'node.yaml'), JSON.stringify(nodeConfig(config, dynamic), undefined, 2));
}

function nodeConfig({ firstPort, postgresPort }: NodeConfig, dynamicConfigFile: string) {
  const sql = (databaseName: string, connections: number) => ({
    sql: {
      pluginName: 'postgres12',
      databaseName,
      connectAddr: `${HOST}:${postgresPort}`,
      connectProtocol: 'tcp',
      user: DATABASE_USER,
      password: '',
      maxConns: connections,
      maxIdleConns: connections,
      maxConnLifetime: '1h',
    },
  });
  const services = SERVICES.map((name, index) => {
    const rpc = { grpcPort: firstPort + 2 * index, membershipPort: firstPort + 2 * index + 1, bindOnIP: HOST };
    return [name, { rpc }] as const;
  });
  const noArchive = { state: 'disabled' };
  return {
    log: { stdout: true, level: 'warn' },
    persistence: {
      defaultStore: 'main',
      visibilityStore: 'visibility',
      numHistoryShards: SHARDS,
      datastores: { main: sql(DATABASES.main, 20), visibility: sql(DATABASES.visibility, 5) },
    },
    global: { membership: { maxJoinDuration: '30s', broadcastAddress: HOST } },
    services: Object.fromEntries(services),
    clusterMetadata: {
      enableGlobalNamespace: false,
      failoverVersionIncrement: 10,
      masterClusterName: 'active',
      currentClusterName: 'active',
      clusterInformation: {
        active: {
          enabled: true,
          initialFailoverVersion: 1,
          rpcName: 'frontend',
          rpcAddress: `${HOST}:${firstPort}`,
        },
      },
    },
    dcRedirectionPolicy: { policy: 'noop' },
    archival: { history: noArchive, visibility: noArchive },
    namespaceDefaults: { archival: { history: noArchive, visibility: noArchive } },
    dynamicConfigClient: { filepath: dynamicConfigFile, pollInterval: '5s' },
  };
}
