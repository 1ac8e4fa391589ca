import { setTimeout as delay } from 'node:timers/promises';
import type { Client } from '@temporalio/client';
import { type ConsumerRun, type Outcome, RESOURCE } from './consumer-run';
import { type HoldInterval, mostAtOnce, overlaps, readHoldIntervals, strays } from './holder-intervals';

/** One consumer of a run, when the run is over. */
export interface Finisher {
  consumer: string;
  startedMs: number;
  outcome: Outcome;
}

/** A finisher with its hold. */
export interface Row extends Finisher {
  hold?: HoldInterval;
}

export interface Verdict {
  /** In the order in which they got their permits; who got none comes last. */
  rows: Row[];
  finished: number;
  /** The most permits that consumers of this run held at once. */
  most: number;
  /** The most that anyone held at once, when others than this run's consumers held some. */
  mostOfAll?: number;
  /** What went wrong, a line each. */
  problems: string[];
}

/** Visibility, which lists the permits, lags behind; on a busy machine by seconds. */
const LISTED_WITHIN_MS = 15_000;

/** Asks the server's histories how the run went. Its consumers have all ended. */
export async function reachVerdict(run: ConsumerRun): Promise<Verdict> {
  const finishers = await Promise.all(
    [...run.outcomes].map(async ([consumer, outcome]) => {
      const { startTime } = await run.client.workflow.getHandle(consumer).describe();
      return { consumer, outcome, startedMs: startTime.getTime() };
    }),
  );
  return judge(finishers, await readSettledHolds(run.client, finishers), run.options.capacity);
}

/**
 * Judges a run by what the holders knew. The maximum that it gives is of the run's own consumers, so that it stays what
 * it is when other runs use the server; but the slots are shared with those, so promises are checked over everybody.
 */
export function judge(finishers: readonly Finisher[], holds: readonly HoldInterval[], capacity: number): Verdict {
  const own = holds.filter(({ holder }) => finishers.some(({ consumer }) => consumer === holder));
  const rows: Row[] = finishers.map((finisher) => ({
    ...finisher,
    hold: own.find(({ holder }) => holder === finisher.consumer),
  }));
  const gotAt = ({ hold }: Row) => hold?.fromMs ?? Number.MAX_VALUE;
  rows.sort((a, b) => gotAt(a) - gotAt(b));

  const most = mostAtOnce(own);
  const mostOfAll = own.length < holds.length ? mostAtOnce(holds) : undefined;
  const problems = [
    ...overlaps(holds).map(([one, other]) => `Slot ${one.slot} was held by ${one.holder} and ${other.holder} at once.`),
    ...strays(holds).map(({ holder, slot }) => `${holder} worked without its permit of slot ${slot}.`),
    ...rows.flatMap(({ consumer, outcome }) => (outcome.ok ? [] : [`${consumer} failed: ${outcome.why}`])),
  ];
  if (most > capacity) problems.push(`More permits than the capacity: ${most} at once, capacity ${capacity}.`);
  else if (mostOfAll !== undefined && mostOfAll > capacity) {
    problems.push(
      `With others, ${mostOfAll} permits at once, capacity ${capacity}: everybody must use the same capacity.`,
    );
  }
  return { rows, finished: rows.filter(({ outcome }) => outcome.ok).length, most, mostOfAll, problems };
}

/**
 * Everybody's holds since the run began. Read again until there is one for each consumer that finished, because a maximum
 * over holds of which some are missing would flatter.
 */
async function readSettledHolds(client: Client, finishers: readonly Finisher[]): Promise<HoldInterval[]> {
  const since = new Date(Math.min(...finishers.map(({ startedMs }) => startedMs)));
  for (const deadline = Date.now() + LISTED_WITHIN_MS; ; await delay(200)) {
    const holds = await readHoldIntervals(client, RESOURCE, { since });
    const missing = finishers.filter(
      ({ consumer, outcome }) => outcome.ok && !holds.some(({ holder }) => holder === consumer),
    );
    if (missing.length === 0) return holds;
    if (Date.now() > deadline) {
      throw new Error(`The server does not list the permits of ${missing.map(({ consumer }) => consumer).join(', ')}`);
    }
  }
}
