import type { WorkflowClient } from '@temporalio/client';
import { noopMetricMeter } from '@temporalio/common';
import { type InjectedSinkFunction, Runtime, type Worker } from '@temporalio/worker';
import { monotonicMs, pause } from '../client/server/clock';
import { endingWith } from '../client/server/ending-calls';
import { describeOpen, lenientReader } from '../client/server/lenient-reader';
import { LongWaiters } from '../client/server/long-waiters';
import { QUERY_MS, Server } from '../client/server/server';
import { WAITERS } from '../shared/metrics';
import { isPaused } from '../shared/open';
import { resourceOfQueue } from '../shared/permit-id';
import { DECLINED, type DeclinedNotice, QUEUE_VIEW, QUEUE_WORKFLOW, type Ticket } from '../shared/protocol';
import { readQueueView, withoutTurn } from '../shared/queue-view';

// The server does not tell a queue that a waiter's Workflow was terminated or has timed out, and the queue can ask only with a signal: four
// events for each waiter. So the queue's worker asks the server, which writes no event, and sends the queue a `declined` for each waiter that
// has ended. That is one event in place of the turn that the ticket would get later, which finds no Workflow.

/** How often each queue is looked at … */
const EVERY_MS = 15_000;

/** … and how long a waiter has waited when a look asks about it. Both together are less than half a minute. */
const WAITS_LONG_MS = 10_000;

/** The pause after each waiter of any queue: a server limits the calls to a namespace. */
const PACE_MS = 50;

/**
 * Runs the worker. If the process exports metrics, the queues on the worker are meanwhile told which waiters have died, so that the gauge of
 * waiters is right within half a minute.
 */
export async function withoutDeadWaiters(worker: Worker, next: (worker: Worker) => Promise<void>): Promise<void> {
  const lines = linesOf(worker);
  if (!lines) return await next(worker);
  const ended = new AbortController();
  const looking = endingWith(ended.signal, () => lookAgainAndAgain(worker, lines, ended.signal));
  try {
    await next(worker);
  } finally {
    ended.abort();
    await looking;
  }
}

/** The waiters of a queue that runs on this worker. */
class LineHere {
  private readonly sinceMs = monotonicMs();
  private readonly waiters = new LongWaiters(WAITS_LONG_MS);
  /** The tickets in the queue's last answer, and where its history was then. */
  private tickets: readonly Ticket[] = [];
  private readAt = '';

  constructor(
    private readonly queueId: string,
    readonly runId: string,
    /** Has the gauge show that no caller waits. */
    readonly showNone: () => void,
  ) {}

  /** Whether some waiter may have waited for long. */
  get isLong(): boolean {
    return monotonicMs() - this.sinceMs >= WAITS_LONG_MS;
  }

  /** Tells the queue which of its waiters are gone. @returns whether any caller waits there */
  async look(server: Server, reader: WorkflowClient, ended: AbortSignal): Promise<boolean> {
    const describe = (workflowId: string) => describeOpen(server, reader, workflowId);
    const queue = await describe(this.queueId);
    if (queue?.type !== QUEUE_WORKFLOW) return false;
    if (isPaused(queue)) return true;
    const readAt = `${queue.runId} ${queue.historyLength}`;
    if (readAt !== this.readAt) this.tickets = await this.read(server, reader);
    this.readAt = readAt;
    for (const ticket of this.waiters.due(this.tickets)) {
      await this.waiters.ask(ticket, describe);
      await pause(PACE_MS, ended);
    }
    const isGone = (ticket: Ticket) => this.waiters.of(ticket)?.isGone;
    // A client's waiter ends with its turn. So waiters are dead if they are gone and afterwards still in the queue.
    const dead = this.tickets.some(isGone) ? (await this.read(server, reader)).filter(isGone) : [];
    for (const { id: ticketId, waiter } of dead) {
      const notice: DeclinedNotice = { ticketId, runId: waiter.runId };
      await server.call(() => reader.getHandle(this.queueId).signal(DECLINED, notice));
    }
    return this.tickets.length > 0;
  }

  /** The tickets in the queue that have no turn. */
  private async read(server: Server, reader: WorkflowClient): Promise<Ticket[]> {
    const answer = await server.call(() => reader.getHandle(this.queueId).query(QUEUE_VIEW), QUERY_MS);
    const view = readQueueView(resourceOfQueue(this.queueId), answer);
    if (!view) throw new Error('The answer of the queue is malformed, or of another codec.');
    return withoutTurn(view);
  }
}

/** The SDK worker's function that sets a gauge for a Workflow. */
type SetGauge = (
  name: string,
  type: string,
  unit: unknown,
  description: unknown,
  value: number,
  labels: object,
) => void;

/** The queues that have waiters, by Workflow ID, as their gauges show. `undefined` if the process exports no metrics. */
function linesOf({ options: { sinks } }: Worker): Map<string, LineHere> | undefined {
  // The SDK has no public means to see what a Workflow records: `test/unit/sdk-internals.test.ts` checks this one.
  const gauge: InjectedSinkFunction<SetGauge> | undefined = sinks?.__temporal_metrics?.setMetricGaugeValue;
  if (!gauge || Runtime.instance().metricMeter === noopMetricMeter) return undefined;
  const lines = new Map<string, LineHere>();
  const { fn: set } = gauge;
  gauge.fn = (info, name, type, unit, description, value, labels) => {
    const { workflowId, runId } = info;
    if (name === WAITERS && value === 0) lines.delete(workflowId);
    if (name === WAITERS && value > 0 && lines.get(workflowId)?.runId !== runId) {
      const showNone = () => set(info, name, type, unit, description, 0, labels);
      lines.set(workflowId, new LineHere(workflowId, runId, showNone));
    }
    return set(info, name, type, unit, description, value, labels);
  };
  return lines;
}

async function lookAgainAndAgain(worker: Worker, lines: Map<string, LineHere>, ended: AbortSignal): Promise<void> {
  while (!ended.aborted) {
    await pause(EVERY_MS, ended);
    const { client } = worker; // its connection may be another by now
    if (!client) continue;
    const [server, reader] = [new Server(client), lenientReader(client)];
    for (const [queueId, line] of lines) {
      if (ended.aborted) return;
      if (!line.isLong) continue;
      try {
        if ((await line.look(server, reader, ended)) || lines.get(queueId) !== line) continue;
        // The queue was terminated, or another worker runs it.
        lines.delete(queueId);
        line.showNone();
      } catch (error) {
        // The worker goes on, and the next look may find more.
        if (!ended.aborted) Runtime.instance().logger.debug('A queue could not be probed.', { queueId, error });
      }
    }
  }
}
