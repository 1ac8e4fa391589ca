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

/** The key of the advisory lock that makes all migrations of a database run one after another. Nobody else uses it. */
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
        RAISE EXCEPTION 'Table % %. That role could run code as role %. Use a table in a schema in which nobody else may create ("schema.name"), or give it to the owner of its schema.',
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
