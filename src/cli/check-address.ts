import { connect } from 'node:net';
import { say } from './terminal';

/** A server near by answers in a millisecond, and a server across the world in 300. */
const SILENT_AFTER_MS = 800;

const DEFAULT_PORT = 7_233;

/** The system's codes for a wrong name or port, in words. */
const NOBODY_THERE: Record<string, string> = {
  ECONNREFUSED: 'nothing listens there',
  ENOTFOUND: 'there is no such host',
  EAI_AGAIN: "the name can't be looked up",
  EHOSTUNREACH: 'there is no route to that host',
  ENETUNREACH: 'there is no route to that network',
};

/** No Temporal server can be reached at the address. */
export class UnreachableError extends Error {
  override readonly name = 'UnreachableError';

  constructor(
    readonly address: string,
    why: string,
  ) {
    super(
      `No Temporal server can be reached at ${address}: ${why}. Name another with --address or TEMPORAL_ADDRESS, or start one (temporal server start-dev).`,
    );
  }
}

/** The server has no such namespace. */
export class NoNamespaceError extends Error {
  override readonly name = 'NoNamespaceError';

  constructor(namespace: string, address: string) {
    super(`There is no namespace "${namespace}" at ${address}. Name another with --namespace or TEMPORAL_NAMESPACE.`);
  }
}

/** The error for an address at which something listens although the connection fails. */
export function connectionError(address: string, { message }: Error): UnreachableError {
  // gRPC and Rust have their own words for "it did not answer as it should", which help no user.
  if (/certificate/i.test(message)) {
    return new UnreachableError(address, 'its certificate is not accepted (see --tls-ca-path and --tls-server-name)');
  }
  const isMute = /before the deadline|transport/i.test(message);
  return new UnreachableError(
    address,
    isMute
      ? 'it does not answer as a Temporal server does (is it overloaded or stopped, or are the TLS flags wrong?)'
      : message,
  );
}

/**
 * Checks whether anything listens at the address: a gRPC client reports that only after ten seconds, and without the address.
 * If no answer comes soon, this says so and leaves the waiting to gRPC: the network may be slow.
 * @throws UnreachableError when the system says that nothing listens there
 */
export async function checkAddress(address: string): Promise<void> {
  const target = hostAndPort(address);
  if (!target || isProxied()) return;
  const socket = connect({ ...target, autoSelectFamily: true });
  try {
    await new Promise<void>((resolve, reject) => {
      socket.setTimeout(SILENT_AFTER_MS, () => {
        say(`${address} has not answered yet. Is the address right?`);
        resolve();
      });
      socket.once('connect', () => resolve());
      socket.once('error', (error: NodeJS.ErrnoException) => {
        const why = NOBODY_THERE[error.code ?? ''];
        if (why === undefined) resolve();
        else reject(new UnreachableError(address, why));
      });
    });
  } finally {
    socket.destroy();
  }
}

/** `undefined` for an address that the SDK does not take, such as a URL, `unix:/path` or `dns:///name`. */
export function hostAndPort(address: string): { host: string; port: number } | undefined {
  const [, ip6, name, port = String(DEFAULT_PORT)] = /^(?:\[([^\]]+)\]|([^:/]+))(?::(\d+))?$/.exec(address) ?? [];
  const host = ip6 ?? name;
  return host === undefined || Number(port) > 65_535 ? undefined : { host, port: Number(port) };
}

/** A proxy may reach a server whose name this machine does not know. gRPC reads these variables. */
function isProxied(): boolean {
  return ['grpc_proxy', 'https_proxy', 'http_proxy'].some((name) => process.env[name]);
}
