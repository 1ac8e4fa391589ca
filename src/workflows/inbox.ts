import { ApplicationFailure, type SignalDefinition } from '@temporalio/workflow';
import { JUST_MOVED, PERMIT_WORKFLOWS, QUEUE_WORKFLOW } from '../shared/protocol';
import { activatorOf } from './lenient-converter';

/** The Workflow types that take their signals here: any client may signal them as often as the server allows. Users' Workflows use the SDK's handlers. */
const OURS: readonly string[] = [...PERMIT_WORKFLOWS, QUEUE_WORKFLOW];

const handlers = new Map<string, (payload: unknown) => void>();
/** The signals that came before {@link takeEarlySignals}; `undefined` after it. */
let early: { name: string; payload: unknown }[] | undefined = [];
let taken = 0;
let wasReplaying = false;
let hasJustMoved = false;

/** How many signals this run has received, of any name. */
export function signalsTaken(): number {
  return taken;
}

/**
 * Handles a signal, with its first argument, after {@link takeEarlySignals}. The handler must not throw.
 *
 * The SDK makes about ten promises for each signal, and each costs a stack trace: 5,000 signals in one Workflow Task take longer than a
 * task may, and have ended the worker's process. Here each costs what its handler does.
 */
export function onSignal<Arg>(signal: SignalDefinition<[Arg?]>, handler: (payload: Arg) => void): void {
  handlers.set(signal.name, handler as (payload: unknown) => void);
}

/** Handles the signals that came before, in their order. A Workflow calls this once, when it has registered all its handlers. */
export function takeEarlySignals(): void {
  const waiting = early ?? [];
  early = undefined;
  for (const { name, payload } of waiting) handlers.get(name)?.(payload);
}

/**
 * The validator of each update that these Workflows take. It refuses one that comes while a worker takes the Workflow over.
 *
 * Such a worker gives the Workflow what has happened since the last Workflow Task with commands in one activation. A replay gives what
 * each task had separately, but only if the task ends with an accepted update (SDK 1.24.0: `find_end_index_of_next_wft_seq` of its core). The
 * Workflow might then decide otherwise. A refused update leaves nothing in the history, and so the replay gives the same again.
 * Where no task has left a command so far, that activation is the Workflow's first, and nothing is replayed: the history's length tells.
 * For the same reason these Workflows refuse an update for its content only once they have accepted it.
 */
export function refuseWhenMoved(): void {
  if (hasJustMoved)
    throw ApplicationFailure.nonRetryable('the Workflow is moving to another worker: retry', JUST_MOVED);
}

/** The least number of the event with which a run's second Workflow Task starts: the run's start, and three events for the first task, come before. */
const SECOND_TASK_STARTED = 6;

/** How long the history was, in events and in bytes, when this run last got news. */
let known = { historyLength: 0, historySize: 0 };

/**
 * Fails a query that comes to a worker before the Workflow Task of what has happened since the last one, while it takes the Workflow over.
 *
 * The SDK gives the Workflow this news then, at the time of the last task, and records in the next task what the Workflow does (SDK
 * 1.24.0: `new_work_from_server` of its core). A replay gives the news at the time of the next task. The failure is the answer to the
 * query. The worker forgets the run, and the next task gives it all. Only the size in bytes tells: each task brings it, and it grows.
 * A server before 1.20 does not count it.
 */
function refuseWithoutTask({ historyLength, historySize }: typeof known, isReplaying: boolean): void {
  const hasTask = historySize === 0 || historySize !== known.historySize || historyLength <= known.historyLength;
  known = { historyLength, historySize };
  if (!hasTask && !isReplaying) throw new Error(`${JUST_MOVED}: the Workflow is moving to another worker: retry`);
}

const activator = activatorOf(OURS);
if (activator) {
  const { namespace, workflowId } = activator.info;
  const context = { type: 'workflow', namespace, workflowId } as const;
  activator.interceptors.internals.push({
    activate(input, next) {
      const { activation } = input;
      if (!activation.jobs?.every(({ queryWorkflow }) => queryWorkflow)) {
        const isFirst = activation.jobs?.some(({ initializeWorkflow }) => initializeWorkflow) === true;
        const hasTasksBefore = isFirst && activator.info.historyLength >= SECOND_TASK_STARTED;
        hasJustMoved = (wasReplaying || hasTasksBefore) && !activation.isReplaying;
        wasReplaying = activation.isReplaying === true;
        refuseWithoutTask(activator.info, wasReplaying);
      }
      const jobs = (activation.jobs ?? []).filter(({ signalWorkflow }) => {
        if (!signalWorkflow) return true;
        taken++;
        const { signalName, input: payloads } = signalWorkflow;
        const [first] = payloads ?? [];
        const payload = first && activator.payloadConverter.fromPayload(first, context);
        const name = signalName ?? '';
        if (early) early.push({ name, payload });
        else handlers.get(name)?.(payload);
        return false;
      });
      next({ ...input, activation: { ...activation, jobs } });
    },
  });
}
