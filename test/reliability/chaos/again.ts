import { copyFile, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client } from '@temporalio/client';
import { withConnection } from '../../../scripts/support/connection';
import { judge } from './checker';
import { readHistories } from './histories';
import type { ChaosRecord } from './record';
import type { ChaosReport } from './report';
import { allResources } from './run';
import { ownServer } from './server';

/** What the record of an older run lacks. */
const OLDER = { notCurrent: [] };

/**
 * Judges a kept run by today's checks. It reads and replays the histories anew, from a copy of what the run's server had.
 *
 * @param directory in which the run is kept
 */
export async function judgeAgain(directory: string, idleLimitMs: number, commit: string): Promise<ChaosReport> {
  const read = async (file: string) => JSON.parse(await readFile(join(directory, file), 'utf8'));
  const record: ChaosRecord = await read('record.json');
  const report: ChaosReport = await read('report.json');
  const copy = await mkdtemp(join(tmpdir(), 'chaos-again-'));
  await copyFile(join(directory, 'server.db'), join(copy, 'server.db'));
  const server = await ownServer(copy);
  try {
    // The record has the faults that the histories tell of.
    const { faults: _, ...found } = await withConnection(
      { connectionOptions: { address: server.address } },
      (connection) =>
        readHistories(
          new Client({ connection }),
          allResources(record.pools),
          join(directory, 'workflows.js'),
          directory,
        ),
    );
    const verdict = judge({ ...OLDER, ...record, ...found }, idleLimitMs);
    return { ...report, ...verdict, commit: `${report.commit}, judged again at ${commit}` };
  } finally {
    await server.stop();
    await rm(copy, { recursive: true, force: true });
  }
}
