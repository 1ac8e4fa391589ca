import { patched, workflowInfo } from '@temporalio/workflow';
import type { ResolvedSemaphore } from '../../shared/options';
import type { Wanted } from '../../shared/permit-set';

/**
 * What is wanted, with the options that this run must use: a replay must issue the same commands as the code with which the acquire began. A
 * marker in the history tells which options those were; runs write it while their semaphore has a `before`. An acquire without a marker began
 * with the oldest options that the code still lists.
 *
 * Each acquire asks again: an acquire that comes after a deploy uses the present options, even in an old run.
 */
export function ofRun<W extends Wanted<ResolvedSemaphore>>(wanted: W): W {
  const present = wanted.semaphore;
  const { before } = present;
  // A replay may meet markers of a `before` that the code no longer has. It writes no markers.
  if (before.length === 0 && !workflowInfo().unsafe.isReplaying) return wanted;
  const semaphore = marked(present) ?? before.at(-1) ?? present;
  const hasNoKeys = semaphore.perKey === undefined && present.perKey !== undefined;
  return { ...wanted, semaphore, key: hasNoKeys ? undefined : wanted.key };
}

/** The semaphore, present or former, whose marker this run has. If the run is not replaying, this call writes the marker. */
export function marked(semaphore: ResolvedSemaphore): ResolvedSemaphore | undefined {
  return [semaphore, ...semaphore.before].find((it) => patched(patchOf(it)));
}

/** Contains all options in which a change breaks a replay, such as the pace: after a hold shorter than that, a holder does not wait for its permit's end. */
function patchOf({
  resource,
  mark,
  perKey,
  fair,
  paceMs,
  unpaced,
  renewEveryMs,
  reentrant,
}: ResolvedSemaphore): string {
  const rest = [
    perKey !== undefined && `perKey=${perKey}`,
    fair && 'fair',
    paceMs !== undefined && `pace=${paceMs}`,
    unpaced && 'pace=false',
    renewEveryMs === false && 'renewEvery=false',
    reentrant && 'reentrant',
  ];
  return ['temporal-semaphore', resource, mark, ...rest.filter(Boolean)].join(':');
}
