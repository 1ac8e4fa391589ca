import { afterEach, before } from 'node:test';
import { bundlePage } from '../../scripts/support/bundle-page';
import { SemaphoreClient, type SemaphoreClientOptions } from '../../src/client';
import type { PageFiles } from '../../src/dashboard/page-files';
import { type Dashboard, startDashboard } from '../../src/dashboard/server';
import type { Temporal } from './temporal';

/** Starts dashboards on the test's own server, and closes them after each test. Call it at the top of a test file. */
export function useDashboards(temporal: Temporal) {
  let page: PageFiles;
  let open: Dashboard[] = [];

  before(async () => {
    page = await bundlePage();
  });

  afterEach(async () => {
    const all = open;
    open = [];
    await Promise.all(all.map((dashboard) => dashboard.close()));
  });

  return async function show(
    resource: string,
    semaphore: Omit<SemaphoreClientOptions, 'taskQueue'>,
    { port }: { port?: number } = {},
  ) {
    const { client, taskQueue, env } = temporal;
    const pool = new SemaphoreClient(client, resource, { ...semaphore, taskQueue });
    const session = { namespace: 'default', address: env.address, ui: 'http://ui.example', readOnly: false };
    const dashboard = await startDashboard({ pools: [pool], port, session, page });
    open.push(dashboard);
    return {
      pool,
      url: dashboard.url,
      close: () => dashboard.close().finally(() => open.splice(open.indexOf(dashboard), 1)),
    };
  };
}
