import { type ActivateInput, ApplicationFailure } from '@temporalio/workflow';
import { JUST_MOVED } from '../shared/protocol';

// What a Workflow does while a worker that does not have it in its cache takes it over. Such a worker may give the Workflow news in other
// portions, or at another time, than a replay does. So the Workflow refuses an update or a query that would make the difference last.
// All here is of SDK 1.24.0; `find_end_index_of_next_wft_seq` and `new_work_from_server` are functions of its core.

type Activation = ActivateInput['activation'];
type Job = NonNullable<Activation['jobs']>[number];

/** The least number of the event with which a run's second Workflow Task starts: the run's start, and three events for the first task, come before. */
const SECOND_TASK_STARTED = 6;

/** What a Workflow Task that the server keeps adds to the history at least: that it is completed, and that the next one is scheduled and started. */
const TASK_EVENTS = 3;

/** The ID of a query that comes without a Workflow Task. */
const LEGACY_QUERY_ID = 'legacy_query';

const REFUSAL = 'the Workflow is moving to another worker: retry';

/** The length of the history, in events and in bytes. */
interface History {
  readonly historyLength: number;
  readonly historySize: number;
}

/** The history when this run last got news. */
let known: History = { historyLength: 0, historySize: 0 };
let wasReplaying = false;
let hasJustMoved = false;
/** How many events the history had when an update was refused. */
let refusedAt: number | undefined;

/**
 * The validator of each update that these Workflows take. It refuses one that comes while a worker takes the Workflow over.
 *
 * Such a worker gives the Workflow what has happened since the last Workflow Task with commands in one activation. A replay gives what
 * each task had separately, but only if the task ends with an accepted update (`find_end_index_of_next_wft_seq`). The Workflow might
 * then decide otherwise. A refused update leaves nothing in the history, and so the replay gives the same again.
 * For the same reason these Workflows refuse an update for its content only once they have accepted it.
 */
export function refuseWhenMoved(): void {
  if (!hasJustMoved) return;
  refusedAt = known.historyLength;
  throw ApplicationFailure.nonRetryable(REFUSAL, JUST_MOVED);
}

/** Call it with each activation, before the Workflow sees any of it. It throws to fail an activation that must not take effect. */
export function noteActivation({ jobs, isReplaying }: Activation, history: History): void {
  const given = jobs ?? [];
  if (given.every(({ queryWorkflow }) => queryWorkflow)) noteQuery(given);
  else noteNews(given, isReplaying === true, history);
}

function noteQuery(jobs: readonly Job[]): void {
  if (jobs.some(({ queryWorkflow }) => queryWorkflow?.queryId === LEGACY_QUERY_ID)) refuseAfterMove();
  // A replay for a query gives the news of each task so far separately.
  wasReplaying = false;
}

function noteNews(jobs: readonly Job[], isReplaying: boolean, { historyLength, historySize }: History): void {
  // Where no task has left a command so far, the activation is the Workflow's first, and nothing is replayed: the history's length tells.
  const isFirst = jobs.some(({ initializeWorkflow }) => initializeWorkflow);
  const hasTasksBefore = isFirst && historyLength >= SECOND_TASK_STARTED;
  hasJustMoved = (wasReplaying || hasTasksBefore) && !isReplaying;
  wasReplaying = isReplaying;
  const before = known;
  known = { historyLength, historySize };
  forgetDiscardedTask(jobs);
  if (!isReplaying) refuseWithoutTask(before);
}

/**
 * Fails a query that comes to a worker before the Workflow Task of what has happened since the last one, also if the worker has the Workflow
 * in its cache: then there is no takeover that {@link refuseAfterMove} could see.
 *
 * The SDK gives the Workflow this news then, at the time of the last task, and records in the next task what the Workflow does
 * (`new_work_from_server`). A replay gives the news at the time of the next task. The failure is the answer to the query. Only the size in bytes
 * tells: each task brings it, and it grows. A server before 1.20 does not count it.
 */
function refuseWithoutTask(before: History): void {
  const hasTask =
    known.historySize === 0 || known.historySize !== before.historySize || known.historyLength <= before.historyLength;
  if (!hasTask) forget();
}

/**
 * Fails the first query after a takeover: its worker may have taken the Workflow over for the query alone. A task that the server has started,
 * and that fails or gets lost, tells the size too, so {@link refuseWithoutTask} can't know. If the task was the worker's own, the query is
 * refused in vain.
 */
function refuseAfterMove(): void {
  if (hasJustMoved) forget();
}

/**
 * Fails a Workflow Task if the server has discarded the one before, in which an update was refused. The server discards a task that was
 * scheduled only for an update, and left nothing. But the Workflow may have got the news of an earlier task in it, for the first time on this
 * worker, and a replay gives that news at the time of another task.
 */
function forgetDiscardedTask(jobs: readonly Job[]): void {
  if (refusedAt === undefined) return;
  const events = jobs.filter((job) => !(job.doUpdate || job.updateRandomSeed || job.notifyHasPatch)).length;
  const isDiscarded = known.historyLength < refusedAt + events + TASK_EVENTS;
  refusedAt = undefined;
  if (isDiscarded) forget();
}

/** Fails the activation. The worker then forgets the run, and replays it for the next task or query. */
function forget(): never {
  throw new Error(`${JUST_MOVED}: ${REFUSAL}`);
}
