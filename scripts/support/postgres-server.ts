import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chown, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Client, Pool, type PoolConfig } from 'pg';
import { diesWithUs } from '@/dev-server/dies-with-us';
import { copyNpmsPostgres, machinesPostgres, npmsPostgres } from './postgres-binaries';

/** A private PostgreSQL for one test file, or for the example. */
export interface Postgres {
  /** Where it is, for `new Pool(…)` and `new Client(…)`, here or in another process. */
  readonly connection: Readonly<Required<Pick<PoolConfig, 'host' | 'database' | 'user'>>>;
  readonly pool: Pool;
  /** A connection of its own, closed with the instance. */
  connect(): Promise<Client>;
  stop(): Promise<void>;
}

/** Said where neither the machine nor npm has one. */
export const NO_POSTGRES =
  'Missing: PostgreSQL. initdb and postgres are neither in /usr/lib/postgresql nor on the PATH, and npm has none for this kind of machine. On Debian or Ubuntu: apt-get install -y postgresql';

/** Throw-away data: nothing has to survive a crash. Commit times tell in which order transactions became visible. */
const SETTINGS = ['fsync=off', 'synchronous_commit=off', 'track_commit_timestamp=on', 'max_connections=100'];

/**
 * Starts a PostgreSQL that listens on a Unix socket in a temporary directory only, so that no port has to be free.
 * @throws Error that says how to install it, when it is not there
 */
export async function startPostgres(): Promise<Postgres> {
  const directory = await mkdtemp(join(tmpdir(), 'permit-pg-'));
  try {
    return await startIn(directory);
  } catch (error) {
    await rm(directory, { recursive: true, force: true });
    throw error;
  }
}

async function startIn(directory: string): Promise<Postgres> {
  const bin = await binaries(directory);
  const owner = await serverUser();
  if (owner) await chown(directory, owner.uid, owner.gid);
  const data = join(directory, 'data');
  await run(
    join(bin, 'initdb'),
    ['-D', data, '-U', 'postgres', '-A', 'trust', '-E', 'UTF8', '--no-sync'],
    directory,
    owner,
  );

  const flags = [`listen_addresses=`, `unix_socket_directories=${directory}`, ...SETTINGS].flatMap((set) => [
    '-c',
    set,
  ]);
  const server = spawn(join(bin, 'postgres'), ['-D', data, ...flags], { cwd: directory, stdio: 'ignore', ...owner });
  const exited = once(server, 'exit');
  diesWithUs(server, 'SIGQUIT'); // "immediate" shutdown: with all its processes
  const connection = { host: directory, database: 'postgres', user: 'postgres' };
  await accepting(connection, exited);

  const pool = new Pool({ ...connection, max: 20 });
  // The server ends idle connections when it stops, and tests end some on purpose.
  pool.on('error', () => undefined);
  const clients: Client[] = [];
  return {
    connection,
    pool,
    async connect() {
      const client = new Client(connection);
      await client.connect();
      clients.push(client);
      return client;
    },
    async stop() {
      await Promise.allSettled([pool.end(), ...clients.map((client) => client.end())]);
      server.kill('SIGINT'); // "fast" shutdown: ends what is connected still
      await exited;
      await rm(directory, { recursive: true, force: true });
    },
  };
}

/** The machine's own, or else the one from npm, copied to where it may be run. */
async function binaries(directory: string): Promise<string> {
  const found = await machinesPostgres();
  if (found) return found;
  const native = npmsPostgres();
  if (!native) throw new Error(NO_POSTGRES);
  return await copyNpmsPostgres(native, join(directory, 'postgres'));
}

/** PostgreSQL refuses to run as root, so root starts it as the user of Debian's package, or as the one that is nobody. */
async function serverUser(): Promise<{ uid: number; gid: number } | undefined> {
  if (process.getuid?.() !== 0) return undefined;
  for (const name of ['postgres', 'nobody']) {
    const ids = await Promise.all(['-u', '-g'].map(async (flag) => Number(await run('id', [flag, name], '/')))).catch(
      () => [],
    );
    const [uid, gid] = ids;
    if (uid && gid) return { uid, gid };
  }
  throw new Error('PostgreSQL refuses to run as root, and there is no user "postgres" or "nobody" to run it as');
}

async function accepting(connection: Postgres['connection'], exited: Promise<unknown[]>): Promise<void> {
  let ended = false;
  void exited.then(() => {
    ended = true;
  });
  for (let attempt = 0; ; attempt++) {
    const client = new Client(connection);
    try {
      await client.connect();
      return await client.end();
    } catch (error) {
      if (ended || attempt > 200) throw new Error('PostgreSQL did not start', { cause: error });
      await delay(50);
    }
  }
}

async function run(
  command: string,
  args: string[],
  cwd: string,
  owner?: { uid: number; gid: number },
): Promise<string> {
  const child = spawn(command, args, { cwd, stdio: ['ignore', 'pipe', 'pipe'], ...owner });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', (text) => (output += text));
  const [code] = await once(child, 'close');
  if (code !== 0) throw new Error(`${command} ended with ${code}: ${output.trim()}`);
  return output;
}
