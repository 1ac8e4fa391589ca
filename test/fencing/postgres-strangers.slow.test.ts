import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Client } from 'pg';
import { FutureTokenError, PostgresFence } from '@/fencing';
import { usePostgres } from '../support/postgres';
import { runIds } from '../support/tokens';

/** Roles that share a database and do not trust each other: "eve" may create tables where the application looks for its own. */
const postgres = usePostgres(async ({ pool }) => {
  await pool.query(`
    CREATE ROLE app LOGIN; CREATE ROLE migrator LOGIN; CREATE ROLE eve LOGIN;
    GRANT CREATE ON SCHEMA public TO PUBLIC;
    CREATE SCHEMA permits AUTHORIZATION migrator; GRANT USAGE ON SCHEMA permits TO app;
    CREATE TABLE public.loot (who text); GRANT ALL ON public.loot TO PUBLIC`);
});

async function as(user: string): Promise<Client> {
  const client = new Client({ ...postgres.connection, user });
  client.on('error', () => undefined); // the server ends it when the file is done
  await client.connect();
  return client;
}

/** Code of eve's that says as whom it ran. */
const STEAL = `CREATE OR REPLACE FUNCTION public.steal() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN INSERT INTO public.loot VALUES (current_user); RETURN NEW; END $$;`;

async function looted(): Promise<string[]> {
  return (await postgres.pool.query<{ who: string }>('SELECT who FROM loot')).rows.map(({ who }) => who);
}

test("another role's table under the fence's name is refused, for its trigger would run as the application", async () => {
  const eve = await as('eve');
  await eve.query(`CREATE TABLE public.permit_fence (resource text, slot text, run_id uuid, epoch bigint,
      admitted_at timestamptz DEFAULT now(), PRIMARY KEY (resource, slot));
    COMMENT ON TABLE public.permit_fence IS 'temporal-semaphore fence, version 1';
    GRANT ALL ON public.permit_fence TO PUBLIC; ${STEAL}
    CREATE TRIGGER x BEFORE INSERT ON public.permit_fence FOR EACH ROW EXECUTE FUNCTION public.steal()`);
  for (const victim of [await as('app'), postgres.pool]) {
    await assert.rejects(
      new PostgresFence('ledger').migrate(victim),
      /Table "permit_fence" belongs to role eve\. That role could run code as role (app|postgres)/,
    );
  }
  assert.deepEqual(await looted(), []);
});

test("a trigger of another role's on a table of one's own is refused as well", async () => {
  const fence = new PostgresFence('ledger', { table: 'public.shared_fence' });
  await fence.migrate(postgres.pool);
  await postgres.pool.query('GRANT TRIGGER ON public.shared_fence TO eve');
  const eve = await as('eve');
  await eve.query(
    `${STEAL} CREATE TRIGGER x BEFORE INSERT ON public.shared_fence FOR EACH ROW EXECUTE FUNCTION public.steal()`,
  );
  await assert.rejects(
    fence.migrate(postgres.pool),
    /Table "public"."shared_fence" has a trigger x, which runs a function of role eve/,
  );
});

test('a function that another role put into the search path is not the one that a migration calls', async () => {
  const eve = await as('eve');
  await eve.query(`CREATE FUNCTION public.obj_description(regclass, text) RETURNS text LANGUAGE plpgsql AS $$
    BEGIN INSERT INTO public.loot VALUES (current_user); RETURN 'temporal-semaphore fence, version 1'; END $$`);
  const app = await as('app');
  await new PostgresFence('ledger', { table: 'public.own_fence' }).migrate(app);
  assert.deepEqual(await looted(), []);
});

test('the recommended way works: the table of a migrating role in its schema, and least rights for the application', async () => {
  const fence = new PostgresFence('ledger', { table: 'permits.permit_fence' });
  const [migrator, app] = [await as('migrator'), await as('app')];
  await fence.migrate(migrator);
  await migrator.query('GRANT SELECT, INSERT, UPDATE ON permits.permit_fence TO app');
  await fence.migrate(app);
  const [runId] = runIds(1);
  await fence.transaction(app, `ledger/0/${runId}`, async ({ epoch }) => assert.equal(epoch, 1));
});

test('a forged token from the future does not reach the table, so the next holder is admitted', async () => {
  const fence = new PostgresFence('ledger', { table: 'permits.permit_fence' });
  const app = await as('app');
  for (const admit of [
    async (token: string) => await fence.transaction(app, token, async () => undefined),
    async (token: string) => await fence.within(app).admit(token),
  ]) {
    await assert.rejects(admit('ledger/forged/ffffffff-ffff-7fff-bfff-ffffffffffff'), FutureTokenError);
  }
  const [runId] = runIds(1);
  await fence.transaction(app, `ledger/forged/${runId}`, async ({ epoch }) => assert.equal(epoch, 1));
});
