import { afterEach, before } from 'node:test';
import { bundlePage } from '../../scripts/support/bundle-page';
import { DashboardResources, parseResource } from '../../src/cli/dashboard';
import { SemaphoreClient, type SemaphoreClientOptions } from '../../src/client';
import type { PageFiles } from '../../src/dashboard/page-files';
import { type Dashboard, type DashboardOptions, startDashboard } from '../../src/dashboard/server';
import { operatorOf } from './operators';
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

  const start = async (options: Pick<DashboardOptions, 'operators' | 'finder' | 'port' | 'access'>) => {
    const session = { namespace: 'default', address: temporal.env.address, ui: 'http://ui.example', readOnly: false };
    const dashboard = await startDashboard({ ...options, session, page });
    open.push(dashboard);
    return dashboard;
  };

  /** Of one resource. */
  const show = async (
    resource: string,
    semaphore: Omit<SemaphoreClientOptions, 'taskQueue'>,
    { port }: { port?: number } = {},
  ) => {
    const { client, taskQueue } = temporal;
    const pool = new SemaphoreClient(client, resource, { ...semaphore, taskQueue });
    const dashboard = await start({ operators: [operatorOf(pool)], port });
    const close = async () => {
      open = open.filter((other) => other !== dashboard);
      await dashboard.close();
    };
    return { pool, url: dashboard.url, close };
  };

  /** Of what `temporal-semaphore dashboard` shows with these arguments. */
  const showAs = async (...resources: string[]) => {
    const finder = new DashboardResources(temporal.client, resources.map(parseResource));
    return await start({ operators: finder.given, finder });
  };

  return { start, show, showAs };
}
