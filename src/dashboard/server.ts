import { once } from 'node:events';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { hostname } from 'node:os';
import { createAdaptorServer } from '@hono/node-server';
import { refuse } from '../shared/check';
import { type Access, isLoopback, resolveAccess } from './access';
import { createApp } from './app';
import { Hub } from './hub';
import type { PageFiles } from './page-files';
import type { Session } from './page-protocol';
import type { ResourceFinder, ResourceOperator } from './poller';

export interface DashboardOptions {
  operators: readonly ResourceOperator[];
  /** Finds more resources. */
  finder?: ResourceFinder;
  /** The address to listen on, and the token. @default this machine alone, without a token */
  access?: Access;
  /** @default 0: any free port */
  port?: number;
  /** The facts about the server that the page shows, and whether the page may change anything. */
  session: Omit<Session, 'csrfToken'>;
  page: PageFiles;
}

export interface Dashboard {
  /** The address for a browser, with the token if it is new. An operator who gave a token knows it. */
  readonly url: string;
  close(): Promise<void>;
}

/** Serves the dashboard, and looks at the resources only while a page is open. */
export async function startDashboard(options: DashboardOptions): Promise<Dashboard> {
  const { operators, finder, access = resolveAccess(), port = 0, session, page } = options;
  const { host } = access;
  const hub = new Hub(operators, finder);
  const app = createApp({ hub, access, session, page });
  const server = createAdaptorServer({ fetch: app.fetch, hostname: host }) as Server;
  await listen(server, host, port);
  const { port: actualPort } = server.address() as AddressInfo;
  const url = new URL(`http://${reachableName(host)}:${actualPort}/`);
  if (access.token !== undefined && access.isTokenNew) url.searchParams.set('token', access.token);
  return {
    url: url.href,
    async close() {
      hub.close();
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

async function listen(server: Server, host: string, port: number): Promise<void> {
  server.listen(port, host);
  try {
    await once(server, 'listening');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw error;
    throw new Error(`Port ${port} is in use, perhaps by another dashboard. Choose another one with --port.`);
  }
}

/** A name by which others reach a server that listens on every address. */
function reachableName(host: string): string {
  if (host === '0.0.0.0' || host === '::') return hostname();
  return host.includes(':') ? `[${host}]` : host;
}

/** The port of a dev server's Web UI is its own port plus this. */
const DEV_UI_OFFSET = 1_000;

/**
 * The URL of the Temporal Web UI, without a slash at the end; `undefined` when it is not known.
 * @param given the user's URL; without it, this guesses for Temporal Cloud and for a server on this machine
 */
export function webUiOf(address: string, given?: string): string | undefined {
  if (given !== undefined) {
    const { protocol } = URL.canParse(given) ? new URL(given) : { protocol: '' };
    if (protocol !== 'http:' && protocol !== 'https:') refuse('ui', 'a URL of http or https', given);
    return given.replace(/\/+$/, '');
  }
  const { hostname, port } = new URL(`tcp://${address}`);
  if (/\.(tmprl\.cloud|api\.temporal\.io)$/.test(hostname)) return 'https://cloud.temporal.io';
  return isLoopback(hostname) ? `http://${hostname}:${Number(port || 7233) + DEV_UI_OFFSET}` : undefined;
}
