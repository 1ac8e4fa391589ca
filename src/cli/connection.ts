import { type ClientConfigTLS, loadClientConfigProfile, toClientOptions } from '@temporalio/envconfig';
import type { Command } from 'commander';

/** The flags that every command has which talks to a server. What is not given comes from Temporal's own environment configuration. */
export interface ConnectionFlags {
  address?: string;
  namespace?: string;
  profile?: string;
  configFile?: string;
  apiKey?: string;
  tls?: boolean;
  tlsCa?: string;
  tlsCert?: string;
  tlsKey?: string;
  tlsServerName?: string;
  dataConverter?: string;
}

export function withConnectionFlags(command: Command): Command {
  return command
    .optionsGroup('Connection (default: TEMPORAL_* variables, then the profile in temporal.toml):')
    .option('--address <host:port>', 'the server (default: localhost:7233)')
    .option('--namespace <name>', 'the namespace (default: default)')
    .option('--profile <name>', 'the profile of the configuration file (default: TEMPORAL_PROFILE, or "default")')
    .option('--config-file <path>', "the configuration file (default: TEMPORAL_CONFIG_FILE, or Temporal's own place)")
    .option('--api-key <key>', 'the API key; others see it in the list of processes, so prefer TEMPORAL_API_KEY')
    .option('--tls', 'connect by TLS')
    .option('--no-tls', 'connect without TLS, whatever the configuration says')
    .option('--tls-ca <path>', "the server's CA certificate")
    .option('--tls-cert <path>', 'the client certificate')
    .option('--tls-key <path>', "the client certificate's private key")
    .option('--tls-server-name <name>', 'the name that the server certificate must have')
    .option('--data-converter <path>', 'a module that exports "dataConverter", where payloads are encrypted');
}

/** Where and how to connect: for `Connection.connect`, and the namespace for the client. */
export function connectConfig(flags: ConnectionFlags): ReturnType<typeof toClientOptions> & { namespace: string } {
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
  return { ...config, namespace: config.namespace ?? 'default' };
}

function tlsOf(flags: ConnectionFlags, configured: ClientConfigTLS | undefined): ClientConfigTLS | undefined {
  const { tls, tlsCa, tlsCert, tlsKey, tlsServerName } = flags;
  const given: ClientConfigTLS = {
    ...(tls === undefined ? undefined : { disabled: !tls }),
    ...(tlsCa === undefined ? undefined : { serverCACert: { path: tlsCa } }),
    ...(tlsCert === undefined ? undefined : { clientCert: { path: tlsCert } }),
    ...(tlsKey === undefined ? undefined : { clientKey: { path: tlsKey } }),
    ...(tlsServerName === undefined ? undefined : { serverName: tlsServerName }),
  };
  return Object.keys(given).length > 0 ? { ...configured, ...given } : configured;
}
