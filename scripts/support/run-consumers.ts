import { setTimeout as delay } from 'node:timers/promises';
import type { Client } from '@temporalio/client';
import { count, duration } from '@/cli/wording';
import { closingLines } from './closing';
import { ConsumerRun, RESOURCE } from './consumer-run';
import { type LiveView, openLiveView } from './live-view';
import { aborted } from './main';
import type { RunOptions } from './run-options';
import { readSlots } from './slots';
import { reachVerdict } from './verdict';

/** Between two looks at the server, and more for many slots, so that a hundred of them do not become a load. */
const LOOK_EVERY_MS = 200;
const LOOK_EVERY_MS_PER_SLOT = 10;

/**
 * Starts the consumers, shows them until all have ended, and prints how it went.
 *
 * @returns the exit code: 0 when every consumer finished and the histories show no promise broken
 * @throws what `interrupt` was aborted with, after the consumers have been stopped
 */
export async function runConsumers(
  client: Client,
  { options, taskQueue, interrupt }: { options: RunOptions; taskQueue: string; interrupt: AbortSignal },
): Promise<number> {
  const { consumers, capacity, holdMs } = options;
  const run = new ConsumerRun(client, options, taskQueue);
  const first = `consumer-${run.id}-1`;
  console.log(
    `${count(consumers, 'consumer')} (${first} …), ${count(capacity, 'permit')} of ${RESOURCE}, held for ${duration(holdMs)} each`,
  );
  try {
    await run.start();
    const view = await openLiveView(process.stdout);
    try {
      await Promise.race([watch(run, view, interrupt), aborted(interrupt)]);
    } finally {
      view.close();
    }
  } finally {
    if (!run.allEnded) {
      console.log('Ending the consumers …');
      await run.stop();
    }
  }
  const verdict = await reachVerdict(run);
  for (const line of closingLines(verdict, options)) console.log(line);
  return verdict.problems.length === 0 ? 0 : 1;
}

async function watch(run: ConsumerRun, view: LiveView, interrupt: AbortSignal): Promise<void> {
  const { capacity, holdMs } = run.options;
  const startedMs = Date.now();
  const served = new Set<string>();
  for (let over = false; !over; ) {
    over = run.allEnded;
    const slots = await readSlots(run.client, RESOURCE, capacity);
    if (interrupt.aborted) return;
    const nowMs = Date.now();
    for (const { held } of slots) if (held) served.add(held.by);
    const { consumers, outcomes } = run;
    view.show({ nowMs, elapsedMs: nowMs - startedMs, slots, consumers, served, outcomes, holdMs });
    if (!over) await delay(Math.max(LOOK_EVERY_MS, capacity * LOOK_EVERY_MS_PER_SLOT));
  }
}
