import { StaleTokenError } from '../shared/fencing-errors';
import { FencingToken, type FencingTokenSource } from '../shared/fencing-token';
import { refuse } from '../shared/invalid-options';
import { checkResource } from '../shared/permit-id';
import { type CountedAdmission, type FenceGuard, orderedTokenOf } from './guard';
import { migrationOf } from './postgres-migration';
import { inTransaction, type PostgresClient, type PostgresPool, type PostgresQueryable } from './postgres-transaction';

export interface PostgresFenceOptions {
  /**
   * The table that remembers the newest holders, as `name` or `schema.name`, in lower case. Namespaces that share a
   * database need one each, for their resources may have the same names. Name a schema in which nobody else may create
   * tables. @default 'permit_fence'
   */
  table?: string;
  /**
   * How many milliseconds a transaction may be silent before Postgres ends it and its connection. A holder that is
   * stopped inside a transaction keeps its successor waiting for so long. `false` leaves it to the server's own
   * `idle_in_transaction_session_timeout`. At most 2^31 - 1, some 24 days. @default 30_000
   */
  idleTimeoutMs?: number | false;
}

/** What the function of a fenced transaction gets. */
export interface FencedTransaction extends CountedAdmission {
  /**
   * The connection on which the transaction runs. What is written through any other is not fenced. It takes no more
   * queries once `fn` has ended ({@link TransactionOverError}).
   */
  readonly client: PostgresClient;
}

const TABLE = /^([a-z_][a-z0-9_]{0,62}\.)?[a-z_][a-z0-9_]{0,62}$/;
const DEFAULT_IDLE_TIMEOUT_MS = 30_000;
/** A setting of PostgreSQL is a 32-bit integer. */
const MAX_IDLE_TIMEOUT_MS = 2 ** 31 - 1;

/**
 * A guard in the database that it protects: the check and the writes are one transaction, so a holder that has lost its
 * permit can't write, however late it wakes. The newest run of each slot stands in one table, whose row stays locked
 * until the transaction ends.
 *
 * - No write of an older holder commits after a newer one of its slot has been admitted.
 * - `epoch` grows by one for each new holder, and never shrinks; an admission that was rolled back does not count.
 *   (A database that loses commits in a fail-over loses admissions too, and `epoch` shrinks.)
 *
 * Not guaranteed: that a holder is refused before its successor's first transaction has begun (to take the slot over at
 * once, admit the token when you get the permit); anything about writes that go past the fence; and that the right one of
 * two is refused where run IDs disagree with the order of grants, after a clock was set back or a claim lingered in the
 * server for as long as the other's whole hold. The transactions of one slot run one after another.
 *
 * @example
 * ```ts
 * const fence = new PostgresFence('ledger');
 * await fence.migrate(pool);
 * await fence.transaction(pool, permit, async ({ client, epoch }) => {
 *   await client.query('INSERT INTO ledger (epoch, line) VALUES ($1, $2)', [epoch, 'paid']);
 * });
 * ```
 */
export class PostgresFence {
  private readonly table: string;
  private readonly idleTimeoutMs: number | false;

  /** @throws InvalidOptionsError */
  constructor(
    readonly resource: string,
    options: PostgresFenceOptions = {},
  ) {
    checkResource(resource);
    const { table = 'permit_fence', idleTimeoutMs = DEFAULT_IDLE_TIMEOUT_MS } = options;
    if (typeof table !== 'string' || !TABLE.test(table)) {
      refuse('table', '"name" or "schema.name" of a-z, 0-9 and _', table);
    }
    if (
      idleTimeoutMs !== false &&
      !(Number.isInteger(idleTimeoutMs) && idleTimeoutMs > 0 && idleTimeoutMs <= MAX_IDLE_TIMEOUT_MS)
    ) {
      refuse(
        'idleTimeoutMs',
        `a whole number of milliseconds from 1 to ${MAX_IDLE_TIMEOUT_MS}, or false`,
        idleTimeoutMs,
      );
    }
    this.table = table.replace(/[^.]+/g, '"$&"');
    this.idleTimeoutMs = idleTimeoutMs;
  }

  /**
   * Creates the table, or brings it to this package's version. Idempotent, and safe when several processes do it at once.
   * It needs the right to create a table only when there is something to do. It refuses a table that another role made
   * than this one, its schema's or database's owner, or a superuser: that role could run code as yours.
   *
   * @throws the driver's error; also when the table was made by a newer version of this package, or by a stranger
   */
  async migrate(db: PostgresQueryable): Promise<void> {
    await db.query(migrationOf(this.table));
  }

  /**
   * Admits the token and runs `fn` in one transaction, which commits when `fn` returns and rolls back when it throws.
   *
   * A connection that can't be rolled back is ended, so that nobody's later write falls into the open transaction.
   *
   * @param db a pool, or a connection that is not in a transaction
   * @throws StaleTokenError and what else {@link FenceGuard.admit} throws; `fn` has not run then
   * @throws TransactionAbortedError when `fn` caught the failure of a statement
   * @throws MixedTransactionsError when the connection was in a transaction, or `fn` ended the fenced one
   * @throws what `fn` threw, or the driver's error. When the answer to the COMMIT is lost, that error leaves open whether
   * the writes are there
   */
  async transaction<T>(
    db: PostgresClient | PostgresPool,
    source: FencingTokenSource,
    fn: (transaction: FencedTransaction) => Promise<T>,
  ): Promise<T> {
    const token = orderedTokenOf(this.resource, source);
    return await inTransaction(db, this.idleTimeoutMs, async (client) =>
      fn({ ...(await this.admit(client, token)), client }),
    );
  }

  /**
   * The guard inside a transaction that you opened yourself on `client`, as an ORM does: admit before the first read that
   * a write depends on. Outside of a transaction it checks, but nothing stays locked until your write.
   */
  within(client: PostgresQueryable): FenceGuard<CountedAdmission> {
    return {
      resource: this.resource,
      admit: async (source) => await this.admit(client, orderedTokenOf(this.resource, source)),
    };
  }

  /** Locks the slot's row in any case, so that whoever comes next waits for this transaction's end, and is then compared. */
  private async admit(client: PostgresQueryable, token: FencingToken): Promise<CountedAdmission> {
    const { rows } = await client.query<{ epoch: string }>(
      `INSERT INTO ${this.table} AS fence (resource, slot, run_id, epoch) VALUES ($1, $2, $3, 1)
       ON CONFLICT (resource, slot) DO UPDATE SET
         run_id = excluded.run_id,
         epoch = fence.epoch + (fence.run_id < excluded.run_id)::int,
         admitted_at = CASE WHEN fence.run_id < excluded.run_id THEN now() ELSE fence.admitted_at END
       WHERE fence.run_id <= excluded.run_id
       RETURNING epoch`,
      [token.resource, token.slot, token.runId],
    );
    const [admitted] = rows;
    if (admitted) return { token, epoch: Number(admitted.epoch) };
    throw new StaleTokenError(token, await this.newest(client, token));
  }

  /** `undefined` when somebody has deleted the row meanwhile, which only happens outside of a transaction. */
  private async newest(client: PostgresQueryable, { resource, slot }: FencingToken): Promise<FencingToken | undefined> {
    const { rows } = await client.query<{ runId: string }>(
      `SELECT run_id AS "runId" FROM ${this.table} WHERE resource = $1 AND slot = $2`,
      [resource, slot],
    );
    return rows[0] && FencingToken.from({ resource, slot, ...rows[0] });
  }
}
