import { type ClientConnectConfig, loadClientConnectConfig } from '@temporalio/envconfig';
import { NativeConnection } from '@temporalio/worker';
import { messageOf } from './main';

/** Which server to use and how to get in: what `@temporalio/envconfig` makes of environment variables and profiles. */
export type Settings = ClientConnectConfig;

const DEFAULT_ADDRESS = 'localhost:7233';

/** The settings that every Temporal tool reads: TEMPORAL_ADDRESS, TEMPORAL_PROFILE, TLS, API key, and so on. */
export function environmentSettings(): Settings {
  return loadClientConnectConfig();
}

/** For people: address and namespace. */
export function describeServer({ connectionOptions, namespace }: Settings): string {
  return `${connectionOptions.address ?? DEFAULT_ADDRESS}, namespace ${namespace ?? 'default'}`;
}

/**
 * Connects for as long as `use` takes. The connection serves workers and clients: the clients' own kind of connection
 * would try until its deadline, where this one tells at once that nobody listens.
 *
 * @throws Error of one line that says how to get a server, when there is none
 */
export async function withConnection<T>(
  settings: Settings,
  use: (connection: NativeConnection) => Promise<T>,
): Promise<T> {
  const connection = await connect(settings);
  try {
    return await use(connection);
  } finally {
    // Refused while a worker uses it: one that failed to shut down, which is thrown already and ends the process.
    await connection.close().catch(() => {});
  }
}

async function connect({ connectionOptions }: Settings): Promise<NativeConnection> {
  try {
    return await NativeConnection.connect(connectionOptions);
  } catch (error) {
    const why = messageOf(error).replaceAll(/\s+/g, ' ');
    const at = connectionOptions.address ?? DEFAULT_ADDRESS;
    throw new Error(
      /ConnectionRefused|Connection refused/.test(why)
        ? `No Temporal server at ${at}. Start one with: npx -y pnpm@10 dev-server`
        : `No connection to the Temporal server at ${at}: ${why}`,
    );
  }
}
