import { Client, Connection } from '@temporalio/client';
import { type ConnectionFlags, connectConfig } from './connection';
import { loadDataConverter } from './data-converter';

/** A client for as long as `use` takes. @throws when the server can't be reached */
export async function withClient<T>(flags: ConnectionFlags, use: (client: Client) => Promise<T>): Promise<T> {
  const { connectionOptions, namespace } = connectConfig(flags);
  const dataConverter = await loadDataConverter(flags.dataConverter);
  const connection = Connection.lazy(connectionOptions);
  try {
    await connection.ensureConnected();
    return await use(new Client({ connection, namespace, dataConverter }));
  } finally {
    await connection.close();
  }
}
