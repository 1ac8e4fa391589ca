import type { ChaosVerdict } from './checker';
import type { Recovery } from './checks/recovery';

/** What a run was, and what came of it: as JSON, and as a page. */
export interface ChaosReport extends ChaosVerdict {
  seed: string;
  commit: string;
  command: string;
  server: string;
  startedAt: string;
  minutes: number;
  /** How long it took from the end of the faults until all were served and no permit was left. */
  healedInMs: number;
  leftOut: string[];
}

const MOST_TOLD = 5;

export function isClean({ invariants, grants }: ChaosVerdict): boolean {
  // A run in which nobody held anything proves nothing.
  return grants > 0 && invariants.every(({ violations }) => violations.length === 0);
}

export function markdown(report: ChaosReport): string {
  const { seed, commit, command, server, startedAt, minutes, leftOut } = report;
  const lines = [
    `Seed \`${seed}\`, commit \`${commit}\`, ${minutes} min of faults from ${startedAt}, ${server}: \`${command}\``,
    '',
    '| invariant | checked on | violations |',
    '| --- | --- | --- |',
    ...report.invariants.map(
      ({ id, promise, checked, violations }) => `| ${id}: ${promise} | ${checked} | ${violations.length} |`,
    ),
    '',
    ...report.invariants.flatMap(({ id, violations }) => told(id, violations)),
    '| measured | |',
    '| --- | --- |',
    ...measured(report).map(([what, value]) => `| ${what} | ${value} |`),
    '',
    '| fault | times | not carried out |',
    '| --- | --- | --- |',
    ...faultRows(report),
    ...(leftOut.length > 0 ? ['', ...leftOut] : []),
  ];
  return `${lines.join('\n')}\n`;
}

function told(id: string, violations: readonly string[]): string[] {
  if (violations.length === 0) return [];
  const more = violations.length > MOST_TOLD ? [`- … and ${violations.length - MOST_TOLD} more`] : [];
  return [
    `Violations of ${id}:`,
    '',
    ...violations.slice(0, MOST_TOLD).map((violation) => `- ${violation}`),
    ...more,
    '',
  ];
}

/** A fault is not carried out where its victim has just gone, or the server is down. */
function faultRows({ faults, faultsNotDone }: ChaosReport): string[] {
  const kinds = [...new Set([...Object.keys(faults), ...Object.keys(faultsNotDone)])].sort();
  return kinds.map((kind) => `| ${kind} | ${faults[kind] ?? 0} | ${faultsNotDone[kind] ?? 0} |`);
}

function measured(report: ChaosReport): [string, string | number][] {
  const { outcomes, recoveries } = report;
  return [
    ['grants', report.grants],
    [
      'acquires',
      Object.entries(outcomes)
        .map(([outcome, count]) => `${count} ${outcome}`)
        .join(', '),
    ],
    ['slowest single wait', seconds(report.slowestWaitMs)],
    ['slowest from asking to the end', `${seconds(report.slowest.tookMs)} (${report.slowest.acquire})`],
    ['longest that a slot was free with a live waiter', seconds(report.longestIdleMs)],
    ['from the last fault until all were served and no permit was left', seconds(report.healedInMs)],
    ['bodies that overlapped in one slot, without fencing', report.overlapsWithoutFencing],
    ['writes, of which stale ones were rejected', `${report.writes}, ${report.staleWritesRejected}`],
    ...recoveries
      .filter(({ tookMs }) => tookMs.length > 0)
      .map(({ what, tookMs }): [string, string] => [what, spread(tookMs)]),
  ];
}

function spread(tookMs: Recovery['tookMs']): string {
  const median = tookMs[Math.floor(tookMs.length / 2)] ?? 0;
  return `median ${seconds(median)}, longest ${seconds(tookMs.at(-1) ?? 0)} (${tookMs.length} times)`;
}

function seconds(ms: number): string {
  return `${(ms / 1_000).toFixed(1)} s`;
}
