import type { Client } from '@temporalio/client';
import { monotonicMs, pause } from './clock';
import { type Circumstances, NoAnswerError, unpolledMessage } from './errors';
import { isTransient } from './grpc-errors';
import type { Server } from './server';

/** A running worker answers sooner than this. */
const SILENCE_MS = 2_000;

/**
 * How long every look must find no poller before a call fails for that reason. A server that restarts, or moves a task queue from one of
 * its nodes to another, forgets its pollers. A worker then polls again within 10 s, the longest delay of its SDK's retries.
 */
const ABSENT_MS = 12_000;

/** When {@link Pollers.areAbsent} has an answer, at the earliest. */
export const ABSENT_AFTER_MS = SILENCE_MS + ABSENT_MS;

/** An acquire that times out fails this much later at most, even if the server is silent … */
const LATE_MS = 300;

/** … unless it had little time from the start, or its time is up already. */
const LEAST_LOOK_MS = 800;

/** Acquires that time out at the same moment, or nearly so, share one look. */
const SHARED_MS = 50;

/** How long one look may take, which is a few calls: its answer is only for a message. */
const LOOK_MS = 3_000;

/** A worker's poll lasts a minute, and the server remembers it for five. This is longer than a minute, since clocks differ. */
const GONE_AFTER_MS = 90_000;

/** The kind of task queue that Workflow workers poll, as the server's API has it. */
const WORKFLOW_QUEUE = 1;

/** The `code` of the Node warning that an acquirer waits while no worker polls the task queue. */
const UNPOLLED_WARNING = 'TEMPORAL_SEMAPHORE_UNPOLLED';

/** Why an acquire may have timed out. */
interface SeenPollers extends Pick<Circumstances, 'unpolled' | 'cause'> {
  /** When a worker has last polled the task queue, in epoch milliseconds by the server's clock. A worker that has ended is listed for a while. */
  lastPolledMs?: number;
}

/**
 * Finds out whether any worker polls the task queue of the permits. It asks the server only when an answer has been missing for two
 * seconds, and then once for all waiters of this client.
 */
export class Pollers {
  private looking: { answer: Promise<number | undefined>; endMs: number } | undefined;
  private hasWarned = false;

  constructor(
    private readonly server: Server,
    readonly taskQueue: string,
  ) {}

  /** Whether no worker polls the task queue. Also `false` if the server does not say. */
  async areNone(): Promise<boolean> {
    // We may lack the permission to ask. The wait's own error tells what is wrong.
    return await this.look().then(
      (lastPolledMs) => lastPolledMs === undefined,
      () => false,
    );
  }

  /** Why an acquire may have timed out although slots are free: no worker polls the task queue, or the server can't be reached. */
  async circumstances(withinMs = LEAST_LOOK_MS): Promise<Circumstances> {
    const { lastPolledMs: _, ...circumstances } = await this.seen(withinMs);
    return circumstances;
  }

  private async seen(withinMs: number): Promise<SeenPollers> {
    try {
      const lastPolledMs = await this.look(withinMs);
      return lastPolledMs === undefined ? { unpolled: this.taskQueue } : { lastPolledMs };
    } catch (error) {
      return isTransient(error) ? { cause: error } : {};
    }
  }

  /**
   * As {@link circumstances}, for an acquire that may time out. It asks while the acquire still waits, so that the error comes in time even
   * if the server is silent, and a server that is only slow is not taken for a silent one. An acquire that is served before costs no call.
   */
  async circumstancesAt(deadlineMs: number, served: AbortSignal): Promise<SeenPollers> {
    const leftMs = deadlineMs - monotonicMs();
    const aheadMs = Math.min(SILENCE_MS, leftMs / 2);
    await pause(leftMs - aheadMs, served);
    if (served.aborted) return {};
    return await this.seen(Math.max(LEAST_LOOK_MS, deadlineMs + LATE_MS - monotonicMs()));
  }

  /** Looks again and again until the answer comes. Returns whether no answer has come and no look has found a poller. */
  async areAbsent(answered: AbortSignal): Promise<boolean> {
    const untilMs = monotonicMs() + ABSENT_AFTER_MS;
    while (await this.isUnanswered(answered)) {
      if (monotonicMs() >= untilMs) return true;
    }
    return false;
  }

  /** Waits two seconds for the answer. Returns whether no answer has come and no worker polls the task queue. */
  private async isUnanswered(answered: AbortSignal): Promise<boolean> {
    await pause(SILENCE_MS, answered);
    return !answered.aborted && (await this.areNone()) && !answered.aborted;
  }

  /** Emits a Node warning, once, when no answer comes and no worker polls the task queue. */
  async warn(answered: AbortSignal): Promise<void> {
    if (this.hasWarned || !(await this.isUnanswered(answered)) || this.hasWarned) return;
    this.hasWarned = true;
    process.emitWarning(unpolledMessage(this.taskQueue), { code: UNPOLLED_WARNING });
  }

  /**
   * When a worker has last polled the task queue, in epoch milliseconds; `undefined` if none polls it. Concurrent callers share one look,
   * unless it may take longer than a caller allows. No look goes on after its time, since the caller may then close the connection.
   */
  private async look(withinMs = LOOK_MS): Promise<number | undefined> {
    const endMs = monotonicMs() + withinMs;
    if (this.looking && this.looking.endMs <= endMs + SHARED_MS) return await this.looking.answer;
    const lastPolled = async () => {
      const polledMs = await pollersOf(this.server.client, this.taskQueue);
      return polledMs.length === 0 ? undefined : Math.max(...polledMs);
    };
    const looking = { answer: this.server.call(lastPolled, withinMs), endMs };
    this.looking = looking;
    try {
      return await looking.answer;
    } finally {
      if (this.looking === looking) this.looking = undefined;
    }
  }
}

/**
 * When each worker that polls the task queue for Workflow Tasks began its last poll, in epoch milliseconds.
 *
 * The server splits a task queue into partitions, four by default, and describes one at a time: the queue's own name is that of the
 * first partition. When the first moves to another node, all polls of an idle worker may wait at the others for up to a minute.
 */
export async function pollersOf({ workflowService, options }: Client, taskQueue: string): Promise<number[]> {
  const { namespace } = options;
  const ofPartition = async (name: string) => {
    const request = { namespace, taskQueue: { name }, taskQueueType: WORKFLOW_QUEUE };
    const { pollers } = await workflowService.describeTaskQueue(request);
    const polledMs = (pollers ?? []).map(({ lastAccessTime }) => Number(lastAccessTime?.seconds ?? 0) * 1_000);
    return polledMs.filter((ms) => ms > Date.now() - GONE_AFTER_MS);
  };
  const first = await ofPartition(taskQueue);
  if (first.length > 0) return first;
  const all = await workflowService.listTaskQueuePartitions({ namespace, taskQueue: { name: taskQueue } });
  const others = (all.workflowTaskQueuePartitions ?? []).flatMap(({ key }) => (key && key !== taskQueue ? [key] : []));
  return (await Promise.all(others.map(ofPartition))).flat();
}

/** The error after waiting in vain for a worker. It names the task queue if no worker polls it. */
export async function noAnswer(
  pollers: Pollers,
  resource: string,
  timeoutMs: number,
  options: ErrorOptions,
): Promise<NoAnswerError> {
  return new NoAnswerError(resource, timeoutMs, { ...options, ...(await pollers.circumstances()) });
}
