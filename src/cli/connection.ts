import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { DataConverter } from '@temporalio/common';
import { type ClientConfigTLS, loadClientConfigProfile, toClientOptions } from '@temporalio/envconfig';
import type { Command } from 'commander';
import { InvalidOptionsError } from '../client';

/** The flags of every command that talks to a server. Temporal's own environment configuration fills in absent ones. */
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
    .option('--config-file <path>', "the configuration file (default: TEMPORAL_CONFIG_FILE, or Temporal's own place)")
    .option('--api-key <key>', 'the API key; others see it in the list of processes, so prefer TEMPORAL_API_KEY')
    .option('--tls', 'connect by TLS')
    .option('--no-tls', 'connect without TLS, whatever the configuration says')
    .option('--tls-ca-path <path>', "the server's CA certificate")
    .option('--tls-cert-path <path>', 'the client certificate')
    .option('--tls-key-path <path>', "the client certificate's private key")
    .option('--tls-server-name <name>', 'the name that the server certificate must have')
    .option('--data-converter <path>', 'a module that exports "dataConverter", where payloads are encrypted');
}

export type ConnectConfig = ReturnType<typeof toClientOptions> & { namespace: string; address: string };

/**
 * Where and how to connect: for `Connection.connect`, and the namespace for the client.
 * @throws InvalidOptionsError when a file or profile that the user named is missing, or can't be read
 */
export function connectConfig(flags: ConnectionFlags): ConnectConfig {
  const { configFile } = flags;
  // The library reads a missing file as an empty one.
  if (configFile !== undefined && !existsSync(configFile)) {
    throw new InvalidOptionsError(`--config-file: there is no file "${configFile}".`);
  }
  try {
    return merged(flags);
  } catch (error) {
    // Nothing has been sent yet: a flag, a variable or a file is wrong.
    const { message } = error as Error;
    throw new InvalidOptionsError(`The flags, TEMPORAL_* variables or temporal.toml can't be used: ${message}`);
  }
}

function merged(flags: ConnectionFlags): ConnectConfig {
  const { profile: name, configFile, address, namespace, apiKey } = flags;
  const profile = loadClientConfigProfile({
    profile: name,
    configSource: configFile === undefined ? undefined : { path: configFile },
  });
  const config = toClientOptions({
    ...profile,
    address: address ?? profile.address,
    namespace: namespace ?? profile.namespace,
    apiKey: apiKey ?? profile.apiKey,
    tls: tlsOf(flags, profile.tls),
  });
  return {
    ...config,
    namespace: config.namespace ?? 'default',
    address: config.connectionOptions.address ?? 'localhost:7233',
  };
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
    throw new InvalidOptionsError(`${expected}, and "${path}" can't be loaded`, { cause: error });
  }
  // Node does not always see a CommonJS module's exports by name.
  const converter = loaded.dataConverter ?? loaded.default?.dataConverter;
  if (typeof converter !== 'object' || converter === null) throw new InvalidOptionsError(`${expected}, got "${path}"`);
  return converter;
}
