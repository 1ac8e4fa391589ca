import { Client, Connection } from '@temporalio/client';
import { type ConnectionFlags, connectConfig } from './connection';

/** A client for as long as `use` takes. @throws when the server can't be reached */
export async function withClient<T>(flags: ConnectionFlags, use: (client: Client) => Promise<T>): Promise<T> {
  const { connectionOptions, namespace } = connectConfig(flags);
  const connection = Connection.lazy(connectionOptions);
  try {
    await connection.ensureConnected();
    return await use(new Client({ connection, namespace }));
  } finally {
    await connection.close();
  }
}
