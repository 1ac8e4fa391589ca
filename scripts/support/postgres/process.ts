import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chown, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Client, type PoolConfig } from 'pg';
import { diesWithUs } from '../dies-with-us';
import { copyNpmsPostgres, machinesPostgres, npmsPostgres } from './binaries';

/** Said where neither the machine nor npm has one. */
export const NO_POSTGRES =
  'Missing: PostgreSQL. initdb and postgres are neither in /usr/lib/postgresql nor on the PATH, and npm has none for this kind of machine. On Debian or Ubuntu: apt-get install -y postgresql';

/** Where a PostgreSQL is, for `new Pool(…)` and `new Client(…)`. */
export type PostgresConnection = Readonly<Required<Pick<PoolConfig, 'host' | 'port' | 'database' | 'user'>>>;

interface PostgresOptions {
  /** As `name=value`. */
  settings: readonly string[];
  /** Listens on this port of the loopback interface as well. */
  port?: number;
}

interface User {
  uid: number;
  gid: number;
}

/** How its server ends: it disconnects everybody and writes all it has; or as a power cut would end it. */
export type PostgresEnd = 'fast' | 'crash';

/** For how long it is knocked at: after a crash it first replays its log. */
const STARTS_WITHIN_MS = 30_000;

/**
 * A PostgreSQL in a temporary directory. It listens on a Unix socket there. Its server can end and start again on the same data.
 */
export class PostgresProcess {
  private server: ChildProcess | undefined;
  private exited: Promise<unknown> = Promise.resolve();

  private constructor(
    private readonly directory: string,
    private readonly bin: string,
    private readonly owner: User | undefined,
    private readonly options: PostgresOptions,
  ) {}

  /**
   * Makes the data directory, and starts nothing yet.
   * @throws Error that says how to install PostgreSQL, when it is not there
   */
  static async create(options: PostgresOptions): Promise<PostgresProcess> {
    const directory = await mkdtemp(join(tmpdir(), 'permit-pg-'));
    try {
      const bin = await binaries(directory);
      const owner = await serverUser();
      if (owner) await chown(directory, owner.uid, owner.gid);
      const data = join(directory, 'data');
      const flags = ['-D', data, '-U', 'postgres', '-A', 'trust', '-E', 'UTF8', '--no-sync'];
      await run(join(bin, 'initdb'), flags, directory, owner);
      return new PostgresProcess(directory, bin, owner, options);
    } catch (error) {
      await rm(directory, { recursive: true, force: true });
      throw error;
    }
  }

  get connection(): PostgresConnection {
    return { host: this.directory, port: this.options.port ?? 5432, database: 'postgres', user: 'postgres' };
  }

  /** Starts the server, and waits until it accepts connections. */
  async start(): Promise<void> {
    const { port, settings } = this.options;
    const all = [
      `listen_addresses=${port ? '127.0.0.1' : ''}`,
      `port=${this.connection.port}`,
      `unix_socket_directories=${this.directory}`,
      ...settings,
    ];
    const args = ['-D', join(this.directory, 'data'), ...all.flatMap((set) => ['-c', set])];
    for (const untilMs = Date.now() + STARTS_WITHIN_MS; ; await delay(50)) {
      const server = spawn(join(this.bin, 'postgres'), args, { cwd: this.directory, stdio: 'ignore', ...this.owner });
      this.server = server;
      this.exited = once(server, 'exit');
      diesWithUs(server, 'SIGQUIT'); // "immediate" shutdown: with all its processes
      if (await this.accepts(server, untilMs)) return;
      // After a crash, the old server's processes may need a moment to end. Until then a new one refuses to start.
      if (Date.now() > untilMs) throw new Error('PostgreSQL did not start');
    }
  }

  async stop(how: PostgresEnd = 'fast'): Promise<void> {
    this.server?.kill(how === 'fast' ? 'SIGINT' : 'SIGKILL');
    await this.exited;
    this.server = undefined;
  }

  /** Stops it, and deletes its data. */
  async dispose(): Promise<void> {
    await this.stop();
    await rm(this.directory, { recursive: true, force: true });
  }

  /** @returns whether it accepts connections; `false` when it has ended instead, or the time is up */
  private async accepts(server: ChildProcess, untilMs: number): Promise<boolean> {
    while (server.exitCode === null && server.signalCode === null && Date.now() < untilMs) {
      const client = new Client(this.connection);
      try {
        await client.connect();
        await client.end();
        return true;
      } catch {
        await delay(50);
      }
    }
    return false;
  }
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
async function serverUser(): Promise<User | undefined> {
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

async function run(command: string, args: string[], cwd: string, owner?: User): Promise<string> {
  const child = spawn(command, args, { cwd, stdio: ['ignore', 'pipe', 'pipe'], ...owner });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', (text) => (output += text));
  const [code] = await once(child, 'close');
  if (code !== 0) throw new Error(`${command} ended with ${code}: ${output.trim()}`);
  return output;
}
