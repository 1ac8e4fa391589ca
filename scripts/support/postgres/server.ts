import { Client, Pool } from 'pg';
import { type PostgresConnection, PostgresProcess } from './process';

/** A private PostgreSQL for one test file, or for the example. */
export interface Postgres {
  /** Where it is, also for another process. */
  readonly connection: PostgresConnection;
  readonly pool: Pool;
  /** A connection of its own, closed with the instance. */
  connect(): Promise<Client>;
  stop(): Promise<void>;
}

/** Throw-away data: nothing has to survive a crash. Commit times tell in which order transactions became visible. */
const SETTINGS = ['fsync=off', 'synchronous_commit=off', 'track_commit_timestamp=on', 'max_connections=100'];

/**
 * Starts a PostgreSQL that listens on a Unix socket in a temporary directory only, so that no port has to be free.
 * @throws Error that says how to install it, when it is not there
 */
export async function startPostgres(): Promise<Postgres> {
  const server = await PostgresProcess.create({ settings: SETTINGS });
  try {
    await server.start();
  } catch (error) {
    await server.dispose();
    throw error;
  }
  const { connection } = server;
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
      await server.dispose();
    },
  };
}
