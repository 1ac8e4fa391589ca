import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { Client } from 'pg';
import type { PostgresProcess } from '../postgres/process';
import { DATABASE_USER, DATABASES } from './node-config';
import { HOST } from './ports';

/** Makes the cluster's databases and tables by Temporal's own tool. */
export async function makeDatabases(postgres: PostgresProcess, sqlTool: string): Promise<void> {
  await withClient(postgres, 'postgres', (client) => client.query(`CREATE ROLE ${DATABASE_USER} LOGIN SUPERUSER`));
  for (const [store, database] of Object.entries(DATABASES)) {
    const schema = `postgresql/v12/${store === 'main' ? 'temporal' : 'visibility'}`;
    const tool = async (...args: string[]) => {
      const { port } = postgres.connection;
      const where = ['--plugin', 'postgres12', '--ep', HOST, '-p', `${port}`, '-u', DATABASE_USER, '--db', database];
      await run(sqlTool, [...where, ...args]);
    };
    await tool('create-database');
    await tool('setup-schema', '-v', '0.0');
    await tool('update-schema', '--schema-name', schema);
  }
}

/** How many shards each history service has taken last, by its address. */
export async function shardOwners(postgres: PostgresProcess): Promise<Map<string, number>> {
  const { rows } = await withClient(postgres, DATABASES.main, (client) =>
    // The owner stands as text within the bytes of the shard's record.
    client.query<{ owner: string; count: string }>(
      `SELECT substring(encode(data, 'escape') from '${HOST.replaceAll('.', '\\.')}:\\d+') AS owner, count(*) FROM shards GROUP BY 1`,
    ),
  );
  return new Map(rows.map(({ owner, count }) => [owner, Number(count)]));
}

async function withClient<T>(
  postgres: PostgresProcess,
  database: string,
  use: (client: Client) => Promise<T>,
): Promise<T> {
  const client = new Client({ ...postgres.connection, database });
  await client.connect();
  try {
    return await use(client);
  } finally {
    await client.end();
  }
}

async function run(command: string, args: string[]): Promise<void> {
  const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', (text) => (output += text));
  const [code] = await once(child, 'close');
  if (code !== 0) throw new Error(`${command} ${args.join(' ')} ended with ${code}: ${output.slice(-2_000)}`);
}
