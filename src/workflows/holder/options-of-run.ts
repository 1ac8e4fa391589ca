import { patched, workflowInfo } from '@temporalio/workflow';
import type { ResolvedSemaphore } from '../../shared/options';
import type { Wanted } from '../../shared/permit-set';

/**
 * What is wanted, with the options by which this run must go: a replay commands what the code commanded that the acquire began with. A
 * marker in the history tells them, which runs write while their semaphore has a `before`. An acquire without a marker began by the
 * oldest options that the code still knows.
 *
 * Each acquire asks anew: one that comes after a deploy goes by the present options, also in an old run.
 */
export function ofRun<W extends Wanted<ResolvedSemaphore>>(wanted: W): W {
  const present = wanted.semaphore;
  const { before } = present;
  // A replay may meet markers of a `before` that the code has no more. It writes none.
  if (before.length === 0 && !workflowInfo().unsafe.isReplaying) return wanted;
  const semaphore = marked(present) ?? before.at(-1) ?? present;
  const hasNoKeys = semaphore.perKey === undefined && present.perKey !== undefined;
  return { ...wanted, semaphore, key: hasNoKeys ? undefined : wanted.key };
}

/** The semaphore by whose marker this run goes: as it is now or was before. A run that does not replay is marked by this call. */
export function marked(semaphore: ResolvedSemaphore): ResolvedSemaphore | undefined {
  return [semaphore, ...semaphore.before].find((it) => patched(patchOf(it)));
}

/** All options in which a change breaks a replay. The pace is one: a holder that held for less does not wait for its permit's end. */
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
