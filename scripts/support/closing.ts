import { drawTable, paint } from '@/cli/text';
import { count, duration } from '@/cli/wording';
import type { RunOptions } from './run-options';
import type { Row, Verdict } from './verdict';

/** What is printed when a run is over: the table, what went wrong, and the closing line. */
export function closingLines(verdict: Verdict, { consumers, capacity }: RunOptions): string[] {
  const { rows, finished, most, mostOfAll, problems } = verdict;
  const good = problems.length === 0;
  return [
    '',
    drawTable(['consumer', 'slot', 'waited', 'held', 'run ID'], rows.map(cells), [
      'left',
      'right',
      'right',
      'right',
      'left',
    ]),
    '',
    ...problems.map((problem) => paint.red(problem)),
    ...(mostOfAll === undefined
      ? []
      : [`Others held permits too: with theirs, at most ${count(mostOfAll, 'permit')} at once.`]),
    (good ? paint.green : paint.red)(
      `${finished} of ${consumers} consumers finished; at most ${count(most, 'permit')} held at once (capacity ${capacity})`,
    ),
  ];
}

function cells({ consumer, startedMs, hold }: Row): string[] {
  if (!hold) return [consumer, '', '', '', 'held no permit'];
  const { slot, fromMs, toMs, runId } = hold;
  return [consumer, slot, duration(fromMs - startedMs), duration(toMs - fromMs), runId];
}
