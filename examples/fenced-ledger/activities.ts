import { sleep } from '@temporalio/activity';
import type { Pool } from 'pg';
import { currentFencingToken, PostgresFence, StaleTokenError } from 'temporal-semaphore/fencing';

export interface LedgerActivities {
  append(line: string): Promise<void>;
}

/** A consumer's process reports this about a line. */
export type Report = { line: string; event: 'preparing' | 'written' } | { line: string; event: 'refused'; why: string };

export const fence = new PostgresFence('ledger');

export function ledgerActivities(pool: Pool, report: (report: Report) => void): LedgerActivities {
  return {
    async append(line) {
      const token = currentFencingToken();
      report({ line, event: 'preparing' });
      await sleep('1s');
      try {
        await fence.transaction(pool, token, async ({ client, epoch }) => {
          await client.query('INSERT INTO ledger (epoch, line) VALUES ($1, $2)', [epoch, line]);
        });
        report({ line, event: 'written' });
      } catch (error) {
        if (error instanceof StaleTokenError) report({ line, event: 'refused', why: error.message });
        throw error;
      }
    },
  };
}
