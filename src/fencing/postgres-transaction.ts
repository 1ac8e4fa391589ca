import { TransactionAbortedError } from './postgres-errors';

/** Whatever takes SQL: a `Client`, `PoolClient` or `Pool` of the `pg` driver. */
export interface PostgresQueryable {
  query<Row extends { [column: string]: unknown }>(
    text: string,
    values?: unknown[],
  ): Promise<{ readonly rows: Row[]; readonly command: string }>;
}

/** One connection: what this package needs of a `Client` or `PoolClient` of the `pg` driver. */
export interface PostgresClient extends PostgresQueryable {
  on(event: 'error', listener: (error: Error) => void): unknown;
  removeListener(event: 'error', listener: (error: Error) => void): unknown;
}

/** What this package needs of a `Pool` of the `pg` driver. */
export interface PostgresPool {
  /** Told by this from a single connection, which can connect as well. */
  readonly totalCount: number;
  connect(): Promise<PostgresClient & { release(error?: Error): void }>;
}

/** Runs `work` between `begin` and COMMIT, or ROLLBACK if it throws, on the connection or on one of the pool's. */
export async function inTransaction<T>(
  db: PostgresClient | PostgresPool,
  begin: string,
  work: (client: PostgresClient) => Promise<T>,
): Promise<T> {
  const pooled = isPool(db) ? await db.connect() : undefined;
  const client = pooled ?? (db as PostgresClient);
  let broken: Error | undefined;
  const onBroken = (error: Error) => {
    broken ??= error;
  };
  // When the server ends an idle transaction, the driver says so by an event, which would end the process if nobody
  // listened. Whatever is asked of the connection next fails, and we say why.
  client.on('error', onBroken);
  try {
    return await beginAndEnd(client, begin, work);
  } catch (error) {
    if (broken && error instanceof Error) error.cause ??= broken;
    throw error;
  } finally {
    client.removeListener('error', onBroken);
    pooled?.release(broken);
  }
}

async function beginAndEnd<T>(
  client: PostgresClient,
  begin: string,
  work: (client: PostgresClient) => Promise<T>,
): Promise<T> {
  await client.query(begin);
  try {
    const result = await work(client);
    // Postgres answers the COMMIT of a failed transaction with ROLLBACK, and no error.
    if ((await client.query('COMMIT')).command === 'ROLLBACK') throw new TransactionAbortedError();
    return result;
  } catch (error) {
    // The first failure is the one to tell. A connection that can't even roll back is ended, and no pool takes it again.
    await client.query('ROLLBACK').catch(() => undefined);
    throw error;
  }
}

function isPool(db: PostgresClient | PostgresPool): db is PostgresPool {
  return 'totalCount' in db;
}
