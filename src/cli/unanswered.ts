import type { Client } from '@temporalio/client';
import type { Permit } from '../client';
import { pause } from '../client/server/clock';
import { workerCommand } from '../client/server/commands';
import { isTransient } from '../client/server/grpc-errors';
import { permitsOf, type RunSet, slotsOf } from './holding';
import { say } from './terminal';
import { text } from './text';
import { span } from './wording';

// What `run` says while no worker carries out its permits. The server gives a slot, and takes renewals and the release, without any
// worker; only a worker ends the permit. A worker that has just stopped is listed as a poller for up to 90 s. So this asks for the
// permit's own Workflow Task, and not for pollers.

/** A worker takes up a new permit sooner. A command that ends before costs no call. */
const UNTAKEN_MS = 5_000;

/** A shorter release needs no explanation. */
const SLOW_RELEASE_MS = 3_000;

/** A running worker takes a task sooner. */
const TAKEN_WITHIN_MS = 1_000;

/** How long a look at the permits may take when the lease is over: its answer is only for a message. */
const LAST_LOOK_MS = 5_000;

/** How long one call may take. */
const CALL_MS = 2_000;

/** Says once, while the command runs, if no worker has taken up the permit. */
export async function tellUntaken(set: RunSet, client: Client, taskQueue: string, over: AbortSignal): Promise<void> {
  await pause(UNTAKEN_MS, over);
  const [permit] = permitsOf(set);
  if (over.aborted || !permit || !(await isUntaken(client, permit, over).catch(() => false)) || over.aborted) return;
  say(
    text`no worker answers on task queue "${taskQueue}". The command runs, but ${slotsOf(set)} will come free only when a permit worker runs. Start one: ${workerCommand(taskQueue)}`,
  );
}

/** Says once for what `run` still waits after its command has ended. @param ended says that it has @returns whether it has said so */
export async function tellSlowRelease(
  set: RunSet,
  ended: string,
  client: Client,
  taskQueue: string,
  over: AbortSignal,
): Promise<boolean> {
  await pause(SLOW_RELEASE_MS, over);
  if (over.aborted) return false;
  const why = await whyNotReleased(set, client, taskQueue, over);
  if (over.aborted) return false;
  const leftMs = Math.max(...permitsOf(set).map(({ deadline }) => deadline.getTime())) - Date.now();
  say(
    text`${ended}, but ${slotsOf(set)} is not free yet: ${why}. run waits for the release until the lease ends, in ${span(leftMs)} at the latest. A signal ends the wait.`,
  );
  return true;
}

/** Why a release takes long. */
async function whyNotReleased(set: RunSet, client: Client, taskQueue: string, over: AbortSignal): Promise<string> {
  try {
    return (await areUntaken(set, client, over))
      ? `no worker answers on task queue "${taskQueue}"`
      : 'no answer has come';
  } catch (error) {
    return isTransient(error) ? 'the server does not answer' : 'no answer has come';
  }
}

/** Why the slots are not free although the lease is over, which only a worker ends; `undefined` if they are. */
export async function whyNotFree(set: RunSet, client: Client, taskQueue: string): Promise<string | undefined> {
  const isSilent = await areUntaken(set, client, AbortSignal.timeout(LAST_LOOK_MS)).catch(() => false);
  return isSilent
    ? `no worker answers on task queue "${taskQueue}". If no permit worker runs, start one: ${workerCommand(taskQueue)}`
    : undefined;
}

/** Whether no worker takes up the release of one of the permits. */
async function areUntaken(set: RunSet, client: Client, over: AbortSignal): Promise<boolean> {
  for (const permit of permitsOf(set)) if (!over.aborted && (await isUntaken(client, permit, over))) return true;
  return false;
}

/**
 * Whether the permit has a Workflow Task that no worker takes, or that fails there each time. A task that is still the same a second later
 * is no renewal that has just come.
 */
async function isUntaken(client: Client, permit: Permit, over: AbortSignal): Promise<boolean> {
  const since = await untakenSince(client, permit);
  if (since === undefined) return false;
  await pause(TAKEN_WITHIN_MS, over);
  return (await untakenSince(client, permit)) === since;
}

/** When the Workflow Task that no worker has taken was scheduled. */
async function untakenSince(client: Client, { workflowId, runId }: Permit): Promise<string | undefined> {
  const describe = () => client.workflow.getHandle(workflowId, runId).describe();
  const { pendingWorkflowTask: task } = (await client.withDeadline(Date.now() + CALL_MS, describe)).raw;
  if (!task) return undefined;
  if (Number(task.attempt) > 1) return 'long ago';
  return task.startedTime ? undefined : `${task.scheduledTime?.seconds}.${task.scheduledTime?.nanos}`;
}
