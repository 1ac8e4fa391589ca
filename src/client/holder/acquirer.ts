import { Acquirer, type AcquirerOptions } from '../../shared/acquirer';
import { TooFewSlots } from '../../shared/permit-set';
import { monotonicMs } from '../clock';
import { LineFullError } from '../errors';
import type { ClientMetrics } from '../metrics';
import type { Request } from '../options';
import type { Server } from '../server';
import { claimSlot } from './claim';
import type { Permit } from './permit';
import { ClientQueuePlace } from './queue-place';

/** Slots that an acquirer tries in each round while the queue does not answer. Each is one call. */
const TRIES_PER_ROUND = 20;

type Tries = Pick<AcquirerOptions, 'deadlineMs' | 'firstTries' | 'triesBeforeJoin'>;

/** An acquirer whose claims are calls to the server. */
export function clientAcquirer(
  server: Server,
  request: Request,
  { metrics, ...tries }: Tries & { metrics: ClientMetrics },
): Acquirer<Permit> {
  const { slots, recheckAfterMs } = request.semaphore;
  const { deadlineMs } = tries;
  const { maxWaiting, permits = 1 } = request;
  const full = () => {
    const { resource } = request.semaphore;
    throw maxWaiting === undefined
      ? new TooFewSlots(resource, recheckAfterMs)
      : new LineFullError(resource, maxWaiting);
  };
  return new Acquirer(
    { slots, recheckAfterMs, triesPerRound: TRIES_PER_ROUND, ...tries },
    {
      nowMs: monotonicMs,
      random: Math.random,
      claim: async (slot, offer) => {
        const sinceMs = monotonicMs();
        const permit = await claimSlot(server, { slot, request, untilMs: deadlineMs, watchedBy: offer?.queueId });
        if (permit && offer) metrics.claimed(request.semaphore.resource, sinceMs);
        return permit;
      },
      place: () => new ClientQueuePlace(server, request, deadlineMs),
      ...((maxWaiting !== undefined || permits > 1) && { full }),
    },
  );
}
