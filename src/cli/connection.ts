import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { createSecureContext } from 'node:tls';
import { pathToFileURL } from 'node:url';
import { Client, Connection } from '@temporalio/client';
import { type DataConverter, NamespaceNotFoundError } from '@temporalio/common';
import {
  type ClientConfigProfile,
  type ClientConfigTLS,
  loadClientConfigProfile,
  toClientOptions,
} from '@temporalio/envconfig';
import type { Command } from 'commander';
import { InvalidOptionsError } from '../client';
import { Operator, type OperatorOptions } from '../operator';
import { checkAddress, connectionError, hostAndPort, NoNamespaceError } from './check-address';

/** The flags of every command that talks to a server. Temporal's own environment configuration fills in absent flags. */
export interface ConnectionFlags {
  address?: string;
  namespace?: string;
  profile?: string;
  configFile?: string;
  apiKey?: string;
  tls?: boolean;
  tlsCaPath?: string;
  tlsCertPath?: string;
  tlsKeyPath?: string;
  tlsServerName?: string;
  dataConverter?: string;
}

/** Named as Temporal's own command names them. */
export function withConnectionFlags(command: Command): Command {
  return command
    .optionsGroup('Connection (default: TEMPORAL_* variables, then the profile in temporal.toml):')
    .option('--address <host:port>', 'the server (default: localhost:7233)')
    .option('-n, --namespace <name>', 'the namespace (default: default)')
    .option('--profile <name>', 'the profile of the configuration file (default: TEMPORAL_PROFILE, or "default")')
    .option(
      '--config-file <path>',
      "the configuration file (default: TEMPORAL_CONFIG_FILE, or Temporal's default path)",
    )
    .option('--api-key <key>', 'the API key; the process list shows it, so prefer TEMPORAL_API_KEY')
    .option('--tls', 'use TLS to connect to the server')
    .option('--no-tls', 'connect without TLS, even if the configuration enables it')
    .option('--tls-ca-path <path>', "the server's CA certificate")
    .option('--tls-cert-path <path>', 'the client certificate')
    .option('--tls-key-path <path>', "the client certificate's private key")
    .option('--tls-server-name <name>', 'the server name that the certificate must contain')
    .option('--data-converter <path>', 'if payloads are encrypted: a module that exports "dataConverter"');
}

export type ConnectConfig = ReturnType<typeof toClientOptions> & { namespace: string; address: string };

/**
 * Where and how to connect: for `Connection.connect`, and the namespace for the client. An error names what is wrong without the
 * value, which may be a secret.
 * @throws InvalidOptionsError when a file or profile that the user named is missing, or can't be used
 */
export function connectConfig(flags: ConnectionFlags): ConnectConfig {
  const { configFile } = flags;
  // The library reads a missing file as an empty file.
  if (configFile !== undefined && !existsSync(configFile)) {
    throw new InvalidOptionsError(`--config-file: there is no file "${configFile}".`);
  }
  try {
    return merged(flags);
  } catch (error) {
    if (error instanceof InvalidOptionsError) throw error;
    const file = configFile ?? process.env.TEMPORAL_CONFIG_FILE ?? 'temporal.toml';
    throw new InvalidOptionsError(
      `The flags, TEMPORAL_* variables or temporal.toml can't be used: ${whyUnusable(error, file)}`,
    );
  }
}

const ADDRESS = 'the address (address, TEMPORAL_ADDRESS, --address)';
const NAMESPACE = 'the namespace (namespace, TEMPORAL_NAMESPACE, --namespace)';

function merged(flags: ConnectionFlags): ConnectConfig {
  const { profile: name, configFile } = flags;
  const profile = loadClientConfigProfile({
    profile: name,
    configSource: configFile === undefined ? undefined : { path: configFile },
  });
  const address = textOf(ADDRESS, flags.address ?? profile.address);
  if (address !== undefined && !hostAndPort(address)) {
    throw new InvalidOptionsError(`${ADDRESS}: expected <host>:<port>, such as localhost:7233, without http://`);
  }
  const namespace = textOf(NAMESPACE, flags.namespace ?? profile.namespace);
  if (namespace === '') throw new InvalidOptionsError(`${NAMESPACE}: expected a name, got an empty string`);
  const apiKey = headerOf('the API key (api_key, TEMPORAL_API_KEY, --api-key)', flags.apiKey ?? profile.apiKey);
  const grpcMeta = metadataOf(profile.grpcMeta);
  const config = toClientOptions({ ...profile, address, namespace, apiKey, grpcMeta, tls: tlsOf(flags, profile.tls) });
  checkTls(config.connectionOptions.tls);
  return { ...config, namespace: namespace ?? 'default', address: address ?? 'localhost:7233' };
}

/** Why the configuration can't be used, in words without any text of it: the messages of the libraries quote its lines. */
function whyUnusable(error: unknown, file: string): string {
  const { message, code, path, line } = error as NodeJS.ErrnoException & { line?: number };
  if (line !== undefined) {
    const [, reason = 'invalid'] = /^Invalid TOML document: ([a-z][a-z ,:-]*)/.exec(message) ?? [];
    return `${file}, line ${line}: ${reason}`;
  }
  if (path !== undefined) {
    const isContent = path.includes('\n') || path.includes('-----BEGIN');
    return isContent ? 'got the content of a certificate or key instead of its path' : `${path}: ${code}`;
  }
  // These messages quote no value. All other messages may.
  if (/^(Profile '.*' not found|Cannot specify both \w+ and \w+$)/.test(message)) return message;
  return `${file}: no [profile.<name>], or a value of the wrong type`;
}

function textOf(what: string, value: unknown): string | undefined {
  if (value !== undefined && typeof value !== 'string') throw new InvalidOptionsError(`${what}: expected a string`);
  return value;
}

/** A text that a header can have; a mounted secret ends in a newline, which is left out. */
function headerOf(what: string, value: unknown): string | undefined {
  const text = textOf(what, value)?.trim();
  if (text !== undefined && !/^[ -~]*$/.test(text)) {
    throw new InvalidOptionsError(`${what}: expected printable ASCII in one line`);
  }
  return text;
}

function metadataOf(grpcMeta: ClientConfigProfile['grpcMeta']): Record<string, string> | undefined {
  if (grpcMeta === undefined) return undefined;
  const what = 'the metadata (grpc_meta, TEMPORAL_GRPC_META_*)';
  const headers = Object.entries(grpcMeta).map(([name, value]): [string, string] => {
    if (!/^[a-z0-9_.-]+$/.test(name)) throw new InvalidOptionsError(`${what}: expected names of letters, digits and -`);
    return [name, headerOf(`${what}, "${name}"`, value) ?? ''];
  });
  return Object.fromEntries(headers);
}

/** The clients' own errors would come later, and differ. */
function checkTls(tls: ConnectConfig['connectionOptions']['tls']): void {
  if (typeof tls !== 'object' || tls === null) return;
  const { serverRootCACertificate: ca, clientCertPair: { crt, key } = {} } = tls;
  const pem = (bytes: Uint8Array | undefined) => bytes && Buffer.from(bytes);
  try {
    createSecureContext({ ca: pem(ca), cert: pem(crt), key: pem(key) });
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new InvalidOptionsError(`the server's CA, the client certificate or its key can't be used (${code})`);
  }
}

function tlsOf(flags: ConnectionFlags, configured: ClientConfigTLS | undefined): ClientConfigTLS | undefined {
  const { tls, tlsCaPath, tlsCertPath, tlsKeyPath, tlsServerName } = flags;
  const given: ClientConfigTLS = {
    ...(tls === undefined ? undefined : { disabled: !tls }),
    ...(tlsCaPath === undefined ? undefined : { serverCACert: { path: tlsCaPath } }),
    ...(tlsCertPath === undefined ? undefined : { clientCert: { path: tlsCertPath } }),
    ...(tlsKeyPath === undefined ? undefined : { clientKey: { path: tlsKeyPath } }),
    ...(tlsServerName === undefined ? undefined : { serverName: tlsServerName }),
  };
  return Object.keys(given).length > 0 ? { ...configured, ...given } : configured;
}

/** Loads the data converter of the user's own clients and workers, such as one that encrypts. */
export async function loadDataConverter(path: string | undefined): Promise<DataConverter | undefined> {
  if (path === undefined) return undefined;
  const expected = '--data-converter: expected a module that exports "dataConverter"';
  let loaded: { dataConverter?: DataConverter; default?: { dataConverter?: DataConverter } };
  try {
    loaded = await import(pathToFileURL(resolve(path)).href);
  } catch (error) {
    throw new InvalidOptionsError(`${expected}, but "${path}" can't be loaded`, { cause: error });
  }
  // Node does not always see a CommonJS module's exports by name.
  const converter = loaded.dataConverter ?? loaded.default?.dataConverter;
  if (typeof converter !== 'object' || converter === null) throw new InvalidOptionsError(`${expected}, got "${path}"`);
  return converter;
}

/**
 * Connects, and runs `use` with the client. The connection ends with the process: a command may call the SDK itself, and a retry of the
 * SDK throws on a closed connection.
 * @param check refuses bad options before any call to the server
 * @throws UnreachableError, NoNamespaceError
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
  try {
    return await use(client);
  } catch (error) {
    throw error instanceof NamespaceNotFoundError ? new NoNamespaceError(namespace, address) : error;
  }
}

/** Of which server and namespace a client is. */
export function placeOf({ connection, options }: Client): { address: string | undefined; namespace: string } {
  const { address } = (connection as { options?: { address?: string } }).options ?? {};
  return { address, namespace: options.namespace };
}

/** Stands for all keys. A key of this name has a resource like any other: `openai~key:%2A`. */
export const EVERY_KEY = '*';

/** As {@link withClient}, with the operator of one resource, or of one of its keys. @throws InvalidOptionsError for bad options, before any call */
export async function withOperator<T>(
  resource: string,
  flags: ConnectionFlags & OperatorOptions,
  use: (operator: Operator, client: Client) => Promise<T>,
): Promise<T> {
  const { capacity, slots, key, perKey, taskQueue } = flags;
  if (key === EVERY_KEY)
    throw new InvalidOptionsError(`--key '${EVERY_KEY}': only resize, pause and resume take all keys at once.`);
  const options = { capacity, slots, key, perKey, taskQueue };
  const open = (client: Client) => new Operator(client, resource, options);
  return await withClient(flags, (client) => use(open(client), client), open);
}
