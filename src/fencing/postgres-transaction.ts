import { MixedTransactionsError, TransactionAbortedError, TransactionOverError } from './postgres-errors';

interface Result<Row> {
  readonly rows: Row[];
  readonly command: string;
}

/** Anything that takes SQL: a `Client`, `PoolClient` or `Pool` of the `pg` driver. */
export interface PostgresQueryable {
  query<Row extends { [column: string]: unknown }>(text: string, values?: unknown[]): Promise<Result<Row>>;
}

/** One connection: the part that this package needs of a `Client` or `PoolClient` of the `pg` driver. */
export interface PostgresClient extends PostgresQueryable {
  on(event: 'error', listener: (error: Error) => void): unknown;
  removeListener(event: 'error', listener: (error: Error) => void): unknown;
  /** Ends a connection that could not be rolled back. */
  end?(): Promise<void>;
}

/** The part that this package needs of a `Pool` of the `pg` driver. */
export interface PostgresPool {
  /** Only a pool has this. A single connection has `connect` as well. */
  readonly totalCount: number;
  connect(): Promise<PostgresClient & { release(error?: Error): void }>;
}

/**
 * The time of the message that began the transaction, by the server's clock: no two on one connection share it. As a text that is the same
 * whatever time zone or date style the transaction has set meanwhile.
 */
const STARTED =
  "pg_catalog.to_char(pg_catalog.timezone('UTC', pg_catalog.now()), 'YYYY-MM-DD HH24:MI:SS.US') AS started";
const IN_FAILED_TRANSACTION = '25P02';

/**
 * Runs `work` in a transaction on the connection, or on one of the pool's. When the transaction can't be ended, the
 * connection is: back in a pool, it would swallow the writes of its next user.
 */
export async function inTransaction<T>(
  db: PostgresClient | PostgresPool,
  idleTimeoutMs: number | false,
  work: (client: PostgresClient) => Promise<T>,
): Promise<T> {
  const pooled = isPool(db) ? await db.connect() : undefined;
  const client = pooled ?? (db as PostgresClient);
  let broken: Error | undefined;
  const onBroken = (error: Error) => {
    broken ??= error;
  };
  // When the server ends an idle transaction, the driver emits an event. Without a listener, that would end the process.
  // The next query on the connection fails, and its error then has this one as its cause.
  client.on('error', onBroken);
  try {
    return await withinTransaction(client, idleTimeoutMs, work, onBroken);
  } catch (error) {
    if (error instanceof Error && broken !== error) error.cause ??= broken;
    throw error;
  } finally {
    client.removeListener('error', onBroken);
    if (pooled) pooled.release(broken);
    // A transaction that the caller opened on its own connection stays open: the caller ends it.
    else if (broken && !(broken instanceof MixedTransactionsError)) void client.end?.().catch(() => undefined);
  }
}

async function withinTransaction<T>(
  client: PostgresClient,
  idleTimeoutMs: number | false,
  work: (client: PostgresClient) => Promise<T>,
  onBroken: (error: Error) => void,
): Promise<T> {
  let started: string | undefined;
  try {
    started = await begin(client, idleTimeoutMs);
    if (started !== undefined) {
      const result = await workOn(client, work);
      await commit(client, started);
      return result;
    }
  } catch (error) {
    // The caller gets the first failure. BEGIN may have failed on this side only, so roll back in that case too.
    await client.query('ROLLBACK').catch(onBroken);
    throw error;
  }
  const mixed = new MixedTransactionsError('before');
  onBroken(mixed);
  throw mixed;
}

/**
 * Begins a transaction.
 *
 * @returns its start; `undefined` when the connection was in a transaction already, which BEGIN leaves unchanged and which
 * did not start with this message
 */
async function begin(client: PostgresClient, idleTimeoutMs: number | false): Promise<string | undefined> {
  const timeout =
    idleTimeoutMs === false
      ? ''
      : `, pg_catalog.set_config('idle_in_transaction_session_timeout', '${idleTimeoutMs}', true)`;
  const sql = `BEGIN; SELECT ${STARTED}${timeout} WHERE pg_catalog.now() = pg_catalog.statement_timestamp()`;
  try {
    return (await select(client, sql))?.started;
  } catch (error) {
    if (codeOf(error) === IN_FAILED_TRANSACTION) return undefined;
    throw error;
  }
}

/** Lends the connection to `work` until `work` has ended. A later query would not be fenced, so it fails. */
async function workOn<T>(client: PostgresClient, work: (client: PostgresClient) => Promise<T>): Promise<T> {
  let over = false;
  const lent = new Proxy(client, {
    get(target, property) {
      const value: unknown = Reflect.get(target, property, target);
      if (property !== 'query' || typeof value !== 'function') return value;
      return (...args: unknown[]) => (over ? refuseLate(args) : value.apply(target, args));
    },
  });
  try {
    return await work(lent);
  } finally {
    over = true;
  }
}

/** Fails as a query of the driver does: by its promise, or by the callback that is its last argument. */
function refuseLate(args: unknown[]): Promise<never> | undefined {
  const error = new TransactionOverError();
  const callback = args.at(-1);
  if (typeof callback !== 'function') return Promise.reject(error);
  process.nextTick(callback, error);
  return undefined;
}

async function commit(client: PostgresClient, started: string): Promise<void> {
  let row: { started: string } | undefined;
  try {
    row = await select(client, `SELECT ${STARTED}; COMMIT`);
  } catch (error) {
    throw codeOf(error) === IN_FAILED_TRANSACTION ? new TransactionAbortedError({ cause: error }) : error;
  }
  if (row?.started !== started) throw new MixedTransactionsError('after');
}

/** The row of the SELECT in a message of two statements, for which the driver gives a list of results. */
async function select(client: PostgresClient, sql: string): Promise<{ started: string } | undefined> {
  const results = [await client.query<{ started: string }>(sql)].flat();
  return results.find(({ command }) => command === 'SELECT')?.rows[0];
}

function codeOf(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined;
}

function isPool(db: PostgresClient | PostgresPool): db is PostgresPool {
  return 'totalCount' in db;
}
