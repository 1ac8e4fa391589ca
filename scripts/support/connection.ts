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
 * Connects a client or a worker. Clients use the worker's kind of connection too, because it tells at once that nobody
 * listens, where the other kind tries until its deadline.
 *
 * @throws Error of one line that says how to get a server, when there is none
 */
export async function connect({ connectionOptions }: Settings): Promise<NativeConnection> {
  try {
    return await NativeConnection.connect(connectionOptions);
  } catch (error) {
    const why = messageOf(error).replaceAll(/\s+/g, ' ');
    const at = connectionOptions.address ?? DEFAULT_ADDRESS;
    throw new Error(
      /ConnectionRefused|Connection refused/.test(why)
        ? `No Temporal server at ${at}. Start one with: npx -y pnpm@10 server`
        : `No connection to the Temporal server at ${at}: ${why}`,
    );
  }
}
