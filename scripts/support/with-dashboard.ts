import { startDashboard } from '@/dashboard/server';
import type { Operator } from '@/operator';
import { bundlePage } from './bundle-page';
import { untilAborted } from './main';

interface Shown {
  operator: Operator;
  address: string;
  ui?: string;
  interrupt: AbortSignal;
}

/** Serves the live page while `work` goes on, and after that until `interrupt`: there is something to look at then. */
export async function withDashboard<T>(
  { operator, address, ui, interrupt }: Shown,
  work: () => Promise<T>,
): Promise<T> {
  const session = { namespace: 'default', address, ui, readOnly: false };
  const dashboard = await startDashboard({ operators: [operator], session, page: await bundlePage() });
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
