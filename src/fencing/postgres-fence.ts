import { refuse } from '../shared/check';
import { FencingToken, type FencingTokenSource, StaleTokenError } from '../shared/fencing-token';
import { checkResource } from '../shared/permit-id';
import { type CountedAdmission, type FenceGuard, orderedTokenOf } from './guard';
import { inTransaction, type PostgresClient, type PostgresPool, type PostgresQueryable } from './postgres-transaction';

/** The options of a {@link PostgresFence}. */
export interface PostgresFenceOptions {
  /**
   * The table that stores the newest holders, as `name` or `schema.name`, in lower case. When several Temporal namespaces
   * share a database, give each its own table: their resources may have the same names. Use a schema in which no
   * other role may create tables. @default 'permit_fence'
   */
  table?: string | undefined;
  /**
   * How many milliseconds a transaction may be idle before Postgres ends it and its connection. A holder whose process
   * stops inside a transaction delays the next holder by this much. With `false`, the server's own
   * `idle_in_transaction_session_timeout` applies. At most 2^31 - 1, some 24 days. @default 30_000
   */
  idleTimeoutMs?: number | false | undefined;
}

/** The argument of a fenced transaction's function. */
export interface FencedTransaction extends CountedAdmission {
  /**
   * The connection on which the transaction runs. Writes through any other connection are not fenced. Once `fn` has ended,
   * a query on it fails with {@link TransactionOverError}.
   */
  readonly client: PostgresClient;
}

const TABLE = /^([a-z_][a-z0-9_]{0,62}\.)?[a-z_][a-z0-9_]{0,62}$/;
const DEFAULT_IDLE_TIMEOUT_MS = 30_000;
/** A setting of PostgreSQL is a 32-bit integer. */
const MAX_IDLE_TIMEOUT_MS = 2 ** 31 - 1;

/**
 * A guard in the database that it protects. The check and the writes are one transaction, so a holder that has lost its
 * permit can't write, however late it wakes. One table has a row for each slot, with the newest run. The row stays locked
 * until the transaction ends.
 *
 * - No write of an older holder commits after a newer one of its slot has been admitted. Nor does one of an earlier activity of the
 *   same holder, or of an earlier attempt, where the tokens come from `fencingInterceptors`.
 * - `epoch` grows by one for each new holder and never shrinks. An admission that was rolled back does not count.
 *   (A database that loses commits in a fail-over loses admissions too. Then `epoch` shrinks.)
 *
 * Not guaranteed:
 *
 * - The fence refuses the earlier holder only once the next holder's first transaction has begun. To take the slot over at
 *   once, admit the token as soon as you get the permit.
 * - Writes that bypass the fence are not checked.
 * - The fence goes by the order of run IDs. That order is not the order of grants after a clock was set back, or after a
 *   claim lingered in the server for as long as the other's whole hold. The fence may then refuse the wrong holder.
 *
 * The transactions of one slot run one after another.
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

  /** @throws InvalidOptionsError that names the expected and the given value */
  constructor(
    /** The resource of the semaphore whose permits it checks. */
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
   * Creates the table, or updates it to this package's version. It is idempotent, and several processes may call it at
   * once. It needs the right to create a table only when there is something to do. It accepts a table of this role, of the
   * owner of its schema or database, or of a superuser. It refuses a table of any other role, which could run code as yours.
   *
   * @throws the driver's error; also when a newer version of this package or another role made the table
   */
  async migrate(db: PostgresQueryable): Promise<void> {
    await db.query(migrationOf(this.table));
  }

  /**
   * Admits the token and runs `fn` in one transaction, which commits when `fn` returns and rolls back when it throws.
   *
   * When the roll-back fails, the fence ends the connection, so that no later write falls into the open transaction.
   *
   * @param db a pool, or a connection that is not in a transaction
   * @throws StaleTokenError, or another error of {@link FenceGuard.admit}, before `fn` runs
   * @throws TransactionAbortedError when `fn` caught the failure of a statement
   * @throws MixedTransactionsError when the connection was in a transaction, or `fn` ended the fenced one
   * @throws the error that `fn` threw, or the driver's error. When the answer to the COMMIT is lost, the driver's error does
   * not tell whether the writes were committed
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
   * The guard for a transaction that you, or an ORM, opened on `client`. Admit the token before the first read that a write
   * depends on. Outside of a transaction the guard checks the token, but nothing stays locked until your write.
   * `ROLLBACK TO` a savepoint that is older than the admission undoes the admission and its lock: then admit the token again before
   * you write.
   *
   * `admit` rejects as {@link FenceGuard.admit} says.
   *
   * @example
   * ```ts
   * const fence = new PostgresFence('ledger');
   * const db = await pool.connect();
   * await db.query('BEGIN');
   * await fence.within(db).admit(permit);
   * await db.query('INSERT INTO ledger (line) VALUES ($1)', ['paid']);
   * await db.query('COMMIT');
   * ```
   */
  within(client: PostgresQueryable): FenceGuard<CountedAdmission> {
    return {
      resource: this.resource,
      admit: async (source) => await this.admit(client, orderedTokenOf(this.resource, source)),
    };
  }

  /** Locks the slot's row in any case. The next holder waits until this transaction ends, and only then is its token compared. */
  private async admit(client: PostgresQueryable, token: FencingToken): Promise<CountedAdmission> {
    // The permit's own token has no activity, and makes none stale.
    const { rows } = await client.query<{ epoch: string }>(
      `INSERT INTO ${this.table} AS fence (resource, slot, run_id, scheduled_ms, attempt, epoch) VALUES ($1, $2, $3, $4, $5, 1)
       ON CONFLICT (resource, slot) DO UPDATE SET
         run_id = excluded.run_id,
         scheduled_ms = CASE WHEN fence.run_id < excluded.run_id THEN excluded.scheduled_ms
                             ELSE coalesce(excluded.scheduled_ms, fence.scheduled_ms) END,
         attempt = CASE WHEN fence.run_id < excluded.run_id THEN excluded.attempt
                        ELSE coalesce(excluded.attempt, fence.attempt) END,
         epoch = fence.epoch + (fence.run_id < excluded.run_id)::int,
         admitted_at = CASE WHEN fence.run_id < excluded.run_id THEN now() ELSE fence.admitted_at END
       WHERE fence.run_id < excluded.run_id
         OR fence.run_id = excluded.run_id
           AND coalesce((fence.scheduled_ms, fence.attempt) <= (excluded.scheduled_ms, excluded.attempt), true)
       RETURNING epoch`,
      [token.resource, token.slot, token.runId, token.activity?.scheduledMs ?? null, token.activity?.attempt ?? null],
    );
    const [admitted] = rows;
    if (admitted) return { token, epoch: Number(admitted.epoch) };
    throw new StaleTokenError(token, await this.newest(client, token));
  }

  /** `undefined` if the row was deleted meanwhile, which can happen only outside of a transaction. */
  private async newest(client: PostgresQueryable, { resource, slot }: FencingToken): Promise<FencingToken | undefined> {
    const { rows } = await client.query<{ runId: string; scheduledMs: string | null; attempt: number | null }>(
      `SELECT run_id AS "runId", scheduled_ms AS "scheduledMs", attempt FROM ${this.table} WHERE resource = $1 AND slot = $2`,
      [resource, slot],
    );
    const [row] = rows;
    if (!row) return undefined;
    const { runId, scheduledMs, attempt } = row;
    const permit = FencingToken.from({ resource, slot, runId });
    return attempt === null ? permit : permit.of({ scheduledMs: Number(scheduledMs), attempt });
  }
}

/** One step for each version of the table, applied in order from the version found. Steps are only ever added. */
const STEPS: readonly ((table: string) => string)[] = [
  // Names compare byte for byte ("C"): a collation that changes with the operating system would corrupt the key's index.
  (table) => `
    CREATE TABLE ${table} (
      resource    text        COLLATE "C" NOT NULL,
      slot        text        COLLATE "C" NOT NULL,
      run_id      uuid        NOT NULL,
      epoch       bigint      NOT NULL,
      admitted_at timestamptz NOT NULL DEFAULT now(),
      PRIMARY KEY (resource, slot)
    );`,
  (table) => `ALTER TABLE ${table} ADD COLUMN scheduled_ms bigint, ADD COLUMN attempt int;`,
];

/** The key of the advisory lock that makes all migrations of a database run one after another. No other code uses it. */
const LOCK = 7_305_802_946_211;

/**
 * The owner of the table, and the owner of a function that its triggers run, can run code as the role that writes to the
 * table. These owners are allowed: the role itself, the roles that it is a member of, superusers, and the owners of the
 * schema and the database. (A superuser counts as a member of every role, so its membership says nothing.)
 */
const REFUSE_STRANGERS = `
      SELECT CASE WHEN trigger_name IS NULL THEN pg_catalog.format('belongs to role %I', rolname)
                  ELSE pg_catalog.format('has a trigger %I, which runs a function of role %I', trigger_name, rolname) END
        INTO strange
        FROM (
          SELECT NULL::pg_catalog.name AS trigger_name, relowner AS role FROM pg_catalog.pg_class WHERE oid = found
          UNION ALL
          SELECT tgname, proowner FROM pg_catalog.pg_trigger JOIN pg_catalog.pg_proc ON pg_proc.oid = tgfoid
            WHERE tgrelid = found AND NOT tgisinternal
        ) AS owners
        JOIN pg_catalog.pg_roles ON pg_roles.oid = owners.role
        WHERE NOT (
          rolsuper
          OR rolname = current_user
          OR owners.role IN (
            SELECT datdba FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database()
            UNION ALL
            SELECT nspowner FROM pg_catalog.pg_namespace JOIN pg_catalog.pg_class ON pg_namespace.oid = relnamespace
              WHERE pg_class.oid = found)
          OR (NOT (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user)
              AND pg_catalog.pg_has_role(owners.role, 'MEMBER'))
        )
        LIMIT 1;`;

/**
 * Makes the SQL that updates `table` to the newest version. A table of that version stays unchanged. The table's comment
 * has the version, so that one table is enough. The SQL is one DO block, and so one statement on one connection: a caller
 * can send it through a pool, or inside a transaction. Functions are named with their schema, because a role that may
 * create in a schema of the search path could put a closer match there.
 *
 * @param table a quoted name
 * @param newest the version to which it goes; tests make old ones
 */
export function migrationOf(table: string, newest = STEPS.length): string {
  const steps = STEPS.slice(0, newest).map((step, index) => `IF version < ${index + 1} THEN ${step(table)} END IF;`);
  return `DO $migration$
    DECLARE
      found pg_catalog.regclass;
      version int;
      strange text;
    BEGIN
      PERFORM pg_catalog.pg_advisory_xact_lock(${LOCK});
      found := pg_catalog.to_regclass('${table}');
      ${REFUSE_STRANGERS}
      IF strange IS NOT NULL THEN
        RAISE EXCEPTION 'Table % %. That role could run code as role %. Use a table in a schema in which no other role may create ("schema.name"), or give it to the owner of its schema.',
          '${table}', strange, current_user USING ERRCODE = 'insufficient_privilege';
      END IF;
      version := coalesce(
        pg_catalog.substring(
          pg_catalog.obj_description(found::pg_catalog.oid, 'pg_class'::pg_catalog.name),
          '^temporal-semaphore fence, version (\\d+)$')::int,
        0);
      IF version > ${newest} THEN
        RAISE EXCEPTION 'Table % has version %, made by a newer temporal-semaphore; this one knows ${newest}. Upgrade the package.',
          '${table}', version;
      END IF;
      IF version = ${newest} THEN RETURN; END IF;
      ${steps.join('\n      ')}
      COMMENT ON TABLE ${table} IS 'temporal-semaphore fence, version ${newest}';
    END
  $migration$`;
}
