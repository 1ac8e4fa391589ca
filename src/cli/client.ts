import { Client, Connection } from '@temporalio/client';
import { checkAddress, connectionError } from './check-address';
import { type ConnectionFlags, connectConfig, loadDataConverter } from './connection';

/**
 * Connects, and runs `use` with the client. The connection ends with the process: on one that is closed, the SDK may still begin a
 * retry of a call that was given up, which throws.
 * @param check refuses bad options before the server is called
 * @throws UnreachableError
 */
export async function withClient<T>(
  flags: ConnectionFlags,
  use: (client: Client) => Promise<T>,
  check: (client: Client) => void = () => undefined,
): Promise<T> {
  const { connectionOptions, namespace, address } = connectConfig(flags);
  const dataConverter = await loadDataConverter(flags.dataConverter);
  const connection = Connection.lazy(connectionOptions);
  const client = new Client({ connection, namespace, dataConverter });
  check(client);
  await checkAddress(address);
  await connection.ensureConnected().catch((error: Error) => {
    throw connectionError(address, error);
  });
  return await use(client);
}
