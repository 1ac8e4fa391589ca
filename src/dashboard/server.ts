import { once } from 'node:events';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { hostname } from 'node:os';
import { createAdaptorServer } from '@hono/node-server';
import { type Access, resolveAccess } from './access';
import { createApp } from './app';
import { Hub } from './hub';
import type { PageFiles } from './page-files';
import type { Session } from './page-protocol';
import type { Pool, PoolFinder } from './pool';

export interface DashboardOptions {
  pools: readonly Pool[];
  /** Gives more of them. */
  finder?: PoolFinder;
  /** Where to listen, and for whom. @default for this machine alone */
  access?: Access;
  /** @default 0: any that is free */
  port?: number;
  /** What the page shows of the server, and whether it may change anything. */
  session: Omit<Session, 'csrfToken'>;
  page: PageFiles;
}

export interface Dashboard {
  /** What to open in a browser, with the token if it is a new one. An operator who gave one knows it. */
  readonly url: string;
  close(): Promise<void>;
}

/** Serves the live page. It looks at the resources only while a page is open. */
export async function startDashboard(options: DashboardOptions): Promise<Dashboard> {
  const { pools, finder, access = resolveAccess(), port = 0, session, page } = options;
  const { host } = access;
  const hub = new Hub(pools, finder);
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
    throw new Error(`Port ${port} is taken, perhaps by another dashboard. Choose another with --port.`);
  }
}

/** Where others reach what listens on every address. */
function reachableName(host: string): string {
  if (host === '0.0.0.0' || host === '::') return hostname();
  return host.includes(':') ? `[${host}]` : host;
}
