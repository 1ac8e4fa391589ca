import { after, before } from 'node:test';
import { type Postgres, startPostgres } from '../../scripts/support/postgres/server';

/** Call it at the top of a test file. `prepare` runs once before the tests. (Node 20 does not run `before` hooks in turn.) */
export function usePostgres(prepare?: (postgres: Postgres) => Promise<void>): Postgres {
  let postgres: Postgres;
  before(async () => {
    postgres = await startPostgres();
    await prepare?.(postgres);
  });
  after(async () => {
    await postgres?.stop();
  });
  return {
    get connection() {
      return postgres.connection;
    },
    get pool() {
      return postgres.pool;
    },
    connect: () => postgres.connect(),
    stop: () => postgres.stop(),
  };
}
