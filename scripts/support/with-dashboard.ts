import type { SemaphoreClient } from '@/client';
import { startDashboard } from '@/dashboard/server';
import { bundlePage } from './bundle-page';
import { untilAborted } from './main';

interface Shown {
  pool: SemaphoreClient;
  address: string;
  ui?: string;
  interrupt: AbortSignal;
}

/** Serves the live page while `work` goes on, and after that until `interrupt`: there is something to look at then. */
export async function withDashboard<T>({ pool, address, ui, interrupt }: Shown, work: () => Promise<T>): Promise<T> {
  const session = { namespace: 'default', address, ui, readOnly: false };
  const dashboard = await startDashboard({ pools: [pool], session, page: await bundlePage() });
  try {
    console.log(`Dashboard: ${dashboard.url}`);
    const result = await work();
    console.log('The dashboard stays until Ctrl-C.');
    await untilAborted(interrupt);
    return result;
  } finally {
    await dashboard.close();
  }
}
