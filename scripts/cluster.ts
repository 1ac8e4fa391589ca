import { createInterface } from 'node:readline';
import { type Cluster, NODES, type NodeName, startCluster } from './support/cluster';
import { messageOf, runMain, untilAborted } from './support/main';
import { parseClusterOptions } from './support/run-options';

const HELP = `Type to make a part fail:
  kill A        kill -9 of a node: frontend, history and matching service      (A or B)
  stop A        it leaves in order
  start A       starts it again
  pause A       stops its clock, with its connections open; resume A
  stop pg       ends PostgreSQL in order; kill pg: by kill -9; start pg
  shards        how many of the 64 shards each node has
Ctrl-C ends all.`;

/** What an operator types, as `verb part`. */
function commands(cluster: Cluster): Record<string, (name: NodeName) => Promise<void> | void> {
  return {
    'kill node': (name) => cluster.killNode(name),
    'stop node': (name) => cluster.killNode(name, 'SIGTERM'),
    'start node': (name) => cluster.startNode(name),
    'pause node': (name) => cluster.pauseNode(name),
    'resume node': (name) => cluster.resumeNode(name),
    'kill pg': () => cluster.stopPostgres('crash'),
    'stop pg': () => cluster.stopPostgres(),
    'start pg': () => cluster.startPostgres(),
    shards: async () => console.log(await cluster.shards()),
  };
}

/** `pnpm cluster`: two Temporal server processes on a PostgreSQL, in the foreground. */
runMain(async (interrupt) => {
  const { port } = parseClusterOptions(process.argv.slice(2));
  const cluster = await startCluster({ port, progress: (line) => console.error(line) });
  try {
    console.log(`Temporal cluster: ${cluster.address}. Logs of its nodes: ${cluster.directory}`);
    console.log(HELP);
    const known = commands(cluster);
    const lines = createInterface(process.stdin).on('line', async (line) => {
      const [verb = '', part = ''] = line.trim().split(/\s+/);
      if (!verb) return;
      const name = NODES.find((node) => node === part.toUpperCase());
      const command = known[[verb, name ? 'node' : part].filter(Boolean).join(' ')];
      if (!command) return console.log(HELP);
      try {
        await command(name ?? 'A');
        console.log(`${line.trim()}: done`);
      } catch (error) {
        console.log(`${line.trim()}: ${messageOf(error)}`);
      }
    });
    await untilAborted(interrupt);
    lines.close();
  } finally {
    await cluster.stop();
  }
  console.log('The cluster has ended.');
  return 0;
});
