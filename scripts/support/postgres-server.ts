import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { access, chown, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Client, Pool, type PoolConfig } from 'pg';

/** A private PostgreSQL for one test file, or for the example. */
export interface Postgres {
  /** Where it is, for `new Pool(…)` and `new Client(…)`, here or in another process. */
  readonly connection: Readonly<Required<Pick<PoolConfig, 'host' | 'database' | 'user'>>>;
  readonly pool: Pool;
  /** A connection of its own, closed with the instance. */
  connect(): Promise<Client>;
  stop(): Promise<void>;
}

const INSTALL = 'On Debian or Ubuntu: apt-get install -y postgresql';
const DEBIAN = '/usr/lib/postgresql';

/** Throw-away data: nothing has to survive a crash. Commit times tell in which order transactions became visible. */
const SETTINGS = ['fsync=off', 'synchronous_commit=off', 'track_commit_timestamp=on', 'max_connections=100'];

/**
 * Starts a PostgreSQL that listens on a Unix socket in a temporary directory only, so that no port has to be free.
 * @throws Error that says how to install it, when it is not there
 */
export async function startPostgres(): Promise<Postgres> {
  const bin = await findBinaries();
  const directory = await mkdtemp(join(tmpdir(), 'permit-pg-'));
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

async function findBinaries(): Promise<string> {
  const debian = (await readdir(DEBIAN).catch(() => []))
    .sort((a, b) => Number(b) - Number(a))
    .map((version) => join(DEBIAN, version, 'bin'));
  for (const directory of [...debian, ...(process.env.PATH ?? '').split(':')]) {
    const found = await Promise.all(['initdb', 'postgres'].map((name) => access(join(directory, name)))).catch(
      () => null,
    );
    if (found) return directory;
  }
  throw new Error(
    `This needs a PostgreSQL server (initdb and postgres), and found none in ${DEBIAN}/*/bin or PATH. ${INSTALL}`,
  );
}

/** PostgreSQL refuses to run as root, so root starts it as the user that the Debian package has made. */
async function serverUser(): Promise<{ uid: number; gid: number } | undefined> {
  if (process.getuid?.() !== 0) return undefined;
  const [uid, gid] = await Promise.all(
    ['-u', '-g'].map(async (flag) => Number(await run('id', [flag, 'postgres'], '/'))),
  );
  if (!uid || !gid) throw new Error(`There is no user "postgres" for root to run the server as. ${INSTALL}`);
  return { uid, gid };
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
