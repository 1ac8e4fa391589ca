import { setTimeout as delay } from 'node:timers/promises';
import type { ReportedHold } from '../../scripts/support/holder-intervals';
import { type PermitSet, SemaphoreClient, type SemaphoreClientOptions } from '../../src/client';
import { accumulatorResource } from '../../src/shared/key-names';

import { assertNoPermitLeft, type Temporal } from './temporal';

/** A client of a resource, of one slot unless the options say more. */
export function clientOf(
  { client, taskQueue }: Temporal,
  resource: string,
  options: Partial<SemaphoreClientOptions> = {},
): SemaphoreClient {
  return new SemaphoreClient(client, resource, { capacity: 1, taskQueue, ...options });
}

/** Holds the permits of a client for a moment. @returns when */
export async function holdForAMoment(permits: PermitSet['permits']): Promise<ReportedHold[]> {
  const fromMs = Date.now();
  await delay(20);
  const toMs = Date.now();
  return permits.map(({ runId }) => ({ runId, fromMs, toMs }));
}

/** That no permit of the resource is left, and none that allows to accumulate several. */
export async function assertNothingLeft({ client }: Temporal, resource: string): Promise<void> {
  for (const left of [resource, accumulatorResource(resource)]) await assertNoPermitLeft(client, left);
}
