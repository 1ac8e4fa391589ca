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
];

/** Any number that nobody else uses: all migrations of a database run one after another. */
const LOCK = 7_305_802_946_211;

/**
 * SQL that brings `table` to the newest version, and changes nothing when it is there already. The version stands in the
 * table's comment, so that one table is all there is. It is one DO block, and so one statement on one connection: it can
 * be sent through a pool, or inside a transaction of the user's own.
 *
 * @param table a quoted name
 */
export function migrationOf(table: string): string {
  const steps = STEPS.map((step, index) => `IF version < ${index + 1} THEN ${step(table)} END IF;`);
  return `DO $migration$
    DECLARE version int;
    BEGIN
      PERFORM pg_advisory_xact_lock(${LOCK});
      version := coalesce(
        substring(obj_description(to_regclass('${table}'), 'pg_class') from '^temporal-semaphore fence, version (\\d+)$')::int,
        0);
      IF version > ${STEPS.length} THEN
        RAISE EXCEPTION 'Table % has version %, made by a newer temporal-semaphore; this one knows ${STEPS.length}. Upgrade the package.',
          '${table}', version;
      END IF;
      IF version = ${STEPS.length} THEN RETURN; END IF;
      ${steps.join('\n      ')}
      COMMENT ON TABLE ${table} IS 'temporal-semaphore fence, version ${STEPS.length}';
    END
  $migration$`;
}
