import { refuse } from '../../shared/check';
import { Lease, noticeMsOf } from '../../shared/lease';
import { adoptedRenewalMs, type ResolvedSemaphore, resolveRef } from '../../shared/options';
import { ADOPT, type PermitRef } from '../../shared/protocol';
import { monotonicMs } from '../server/clock';
import { PermitLostError } from '../server/errors';
import { PermitRun } from '../server/permit-run';
import type { AcquireContext } from './acquire';
import { Grant } from './grant';
import { Permit } from './permit';

/** How long an adoption that finds its permit gone asks how the permit ended. */
const HOW_MS = 5_000;

/** Takes over a permit that its holder has detached, as `SemaphoreClient.adopt` says. */
export async function adoptPermit(
  { server, metrics, pollers, closing }: AcquireContext,
  semaphore: ResolvedSemaphore,
  ref: PermitRef,
): Promise<Permit> {
  const { resource } = semaphore;
  const reference = resolveRef(ref);
  if (reference.resource !== resource) refuse('ref', `a permit of "${resource}"`, reference.resource);
  const { leaseMs } = reference;
  const run = new PermitRun(server, reference);
  const untilMs = monotonicMs() + leaseMs;
  let sentMs = 0;
  const adopt = () => {
    sentMs = monotonicMs();
    return run.send(ADOPT, undefined, { holder: { identity: server.identity } });
  };
  const delivered = await closing.wait(new AbortController().signal, (signal) =>
    server.persist(adopt, { untilMs, signal }),
  );
  if (!delivered) {
    const end = await run.end(AbortSignal.timeout(HOW_MS)).catch(() => undefined);
    throw new PermitLostError(reference, reference.runId, end?.how ?? 'unknown', end?.reason);
  }
  const lease = new Lease(leaseMs, sentMs, Number.POSITIVE_INFINITY, monotonicMs);
  const renewEveryMs = adoptedRenewalMs(semaphore, reference, noticeMsOf(leaseMs));
  return new Permit(metrics.watch(new Grant(run, reference, lease, renewEveryMs, pollers)));
}
