/**
 * A process that holds permits and writes to two ledgers under them, one with the fence and one without, for
 * `stale-writes.slow.test.ts` to stop and continue at any point. It is as careful as a holder without a fence can be: it renews
 * its lease, and looks at the clock before each write.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { Client, Connection, WorkflowExecutionAlreadyStartedError, type WorkflowHandle } from '@temporalio/client';
import { Pool, type PoolConfig } from 'pg';
import { FencingToken, PostgresFence, StaleTokenError } from '@/fencing';
import { permitId } from '@/shared/permit-id';
import { PERMIT_WORKFLOW, type PermitInput, RELEASE, RENEW } from '@/shared/protocol';

export interface HolderOptions {
  address: string;
  taskQueue: string;
  postgres: PoolConfig;
  resource: string;
  slots: string[];
  leaseMs: number;
}

/** What the process tells its parent when it ends. */
export interface HolderReport {
  held: number;
  written: number;
  /** By the fence, as stale. */
  refused: number;
  /** Guarded writes that came to nothing for another reason, such as a transaction that was stopped for too long. */
  failed: number;
}

/** Tables of the test: `run_id` is the writer's token. */
export const LEDGERS = { guarded: 'guarded_ledger', unguarded: 'unguarded_ledger' };

/** What a holder does between looking at the clock and writing. */
const WORK_MS = 15;

async function main(options: HolderOptions): Promise<void> {
  const { address, resource, slots, leaseMs, taskQueue } = options;
  const connection = await Connection.connect({ address });
  const client = new Client({ connection });
  const pool = new Pool({ ...options.postgres, max: 2 });
  pool.on('error', () => undefined);
  const fence = new PostgresFence(resource, { idleTimeoutMs: 1_000 });
  const report: HolderReport = { held: 0, written: 0, refused: 0, failed: 0 };
  let ending = false;
  // Without its parent, too, there is nothing left to do.
  for (const end of ['SIGTERM', 'disconnect']) {
    process.once(end, () => {
      ending = true;
    });
  }

  async function writeGuarded(token: FencingToken): Promise<void> {
    try {
      await fence.transaction(pool, token, async (transaction) => {
        await transaction.client.query(`INSERT INTO ${LEDGERS.guarded} (slot, run_id, epoch) VALUES ($1, $2, $3)`, [
          token.slot,
          token.runId,
          transaction.epoch,
        ]);
      });
      report.written++;
    } catch (error) {
      if (error instanceof StaleTokenError) report.refused++;
      else report.failed++;
    }
  }

  async function writeUnguarded({ slot, runId }: FencingToken): Promise<void> {
    await pool.query(`INSERT INTO ${LEDGERS.unguarded} (slot, run_id) VALUES ($1, $2)`, [slot, runId]);
  }

  async function hold(permit: WorkflowHandle, token: FencingToken, startedMs: number): Promise<void> {
    let leaseEndMs = startedMs + leaseMs;
    let lost = false;
    const renewal = setInterval(async () => {
      const sentMs = performance.now();
      try {
        await permit.signal(RENEW);
        leaseEndMs = sentMs + leaseMs;
      } catch {
        lost = true;
      }
    }, leaseMs / 4);
    const doneMs = startedMs + leaseMs * (1 + Math.random());
    while (!lost && !ending && performance.now() < Math.min(leaseEndMs, doneMs)) {
      await delay(WORK_MS);
      await Promise.all([writeGuarded(token), writeUnguarded(token)]);
    }
    clearInterval(renewal);
    // A permit that has ended already can't be released, and needs not be.
    await permit.signal(RELEASE).catch(() => undefined);
  }

  process.send?.('ready');
  while (!ending) {
    const slot = slots[Math.floor(Math.random() * slots.length)] ?? '';
    const startedMs = performance.now();
    const input: PermitInput = { leaseMs, holder: { identity: `${process.pid}` } };
    try {
      const permit = await client.workflow.start(PERMIT_WORKFLOW, {
        workflowId: permitId({ resource, slot }),
        taskQueue,
        args: [input],
        workflowIdConflictPolicy: 'FAIL',
      });
      report.held++;
      const runId = permit.firstExecutionRunId;
      const token = FencingToken.from({ resource, slot, runId });
      await hold(client.workflow.getHandle(permit.workflowId, runId), token, startedMs);
    } catch (error) {
      if (!(error instanceof WorkflowExecutionAlreadyStartedError)) throw error;
      await delay(100 + 200 * Math.random());
    }
  }
  await Promise.all([pool.end(), connection.close()]);
  if (process.connected) {
    process.send?.(report);
    process.disconnect();
  }
}

if (require.main === module) {
  main(JSON.parse(process.argv[2] ?? '')).catch((error: unknown) => {
    console.error(error);
    process.exitCode = 1;
    process.disconnect?.();
  });
}
