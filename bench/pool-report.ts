import Table from 'cli-table3';
import type { RivalName } from './pool-rivals';

export interface Work {
  calls: number;
  callMs: number;
  capacity: number;
}

export interface WorkRun {
  rival: RivalName;
  work: Work;
  processes: number;
  /** Made in this run; a slow rival does not make all of the work's. */
  calls: number;
  /** From the word to the end of the last call. */
  tookMs: number;
  mostAtOnce: number;
}

/** How long the calls take where no slot is ever idle. */
function idealMs({ calls, work }: WorkRun): number {
  return Math.ceil(calls / work.capacity) * work.callMs;
}

function perSecond({ calls, tookMs }: WorkRun): number {
  return (calls / tookMs) * 1_000;
}

/** One work, all rivals. */
export function drawRun(runs: readonly WorkRun[]): string {
  const [first] = runs;
  if (!first) return '';
  const { calls, callMs, capacity } = first.work;
  const pool = runs.find(({ rival }) => rival === 'pool');
  const head = `${calls} × ${callMs} ms on ${capacity}, ${first.processes} process${first.processes > 1 ? 'es' : ''}`;
  const table = new Table({ head: [head, 'calls', 'took', '× ideal', 'calls/s', 'pool is', 'most at once'] });
  for (const run of runs) {
    const ideal = idealMs(run);
    table.push([
      run.rival,
      run.calls,
      `${(run.tookMs / 1_000).toFixed(2)} s`,
      ideal > 0 ? (run.tookMs / ideal).toFixed(2) : '',
      perSecond(run).toFixed(perSecond(run) < 100 ? 1 : 0),
      pool && run !== pool ? `${(perSecond(pool) / perSecond(run)).toFixed(2)} × as fast` : '',
      run.mostAtOnce,
    ]);
  }
  return table.toString();
}
