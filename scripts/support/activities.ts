import { createHash } from 'node:crypto';
import { heartbeat, sleep } from '@temporalio/activity';
import type { ExampleActivities } from './example-workflow';

const BEAT_MS = 200;

/** Hashes slot and fencing token over and over for `holdMs`. Cancellation arrives through the heartbeats. */
export const useGpu: ExampleActivities['useGpu'] = async ({ slot, fencingToken, holdMs }) => {
  let digest = `${slot}/${fencingToken}`;
  for (let leftMs = holdMs; leftMs > 0; leftMs -= BEAT_MS) {
    heartbeat({ leftMs });
    for (let round = 0; round < 100; round++) digest = createHash('sha256').update(digest).digest('hex');
    await sleep(Math.min(BEAT_MS, leftMs));
  }
  return digest.slice(0, 16);
};
