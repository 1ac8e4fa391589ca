import { type Client, isGrpcServiceError } from '@temporalio/client';
import { NoAnswerError, PermitTimeoutError, SemaphoreClient } from '../client';
import { monotonicMs } from '../client/server/clock';
import { shellWord, workerCommand } from '../client/server/commands';
import { pollersOf } from '../client/server/pollers';
import type { PermitInspection, SlotInspection } from '../operator';
import { findDeadlocks } from '../operator/deadlocks';
import { inspectAllInUse, type SeenResource } from '../operator/resources-in-use';
import { type StuckWorkflows, stuckCallers, stuckWorkflows } from '../operator/stuck-workflows';
import { durationText } from '../shared/duration';
import { isOpen } from '../shared/open';
import { leastPaceMs } from '../shared/pace';
import { versionInForce } from '../shared/version-in-force';
import { unansweredTaskQueues, waiterName } from './draw-resource';
import {
  deadlockFinding,
  type Finding,
  type Polled,
  pollersBehind,
  pollersNote,
  resourceFindings,
  silentFindings,
  silentRemedy,
  stuckFindings,
} from './resource-findings';
import { holderName } from './terminal';
import { count, fromNow, pauseNote, reasonNote, sinceNow, span, untilNote } from './wording';

export interface DoctorOptions {
  taskQueue: string;
  waitingLongerMs: number;
  /** Whether to acquire permits and measure the time. */
  probe?: boolean;
}

/** The first server whose run IDs are UUIDv7, which grow with time. */
const ORDERED_SINCE = [1, 27] as const;

/** How long the server may take for all checks other than those of the resources. */
const ASKED_WITHIN_MS = 30_000;

const PROBES = 5;
const PROBE_WITHIN_MS = 10_000;

const AT_ONCE = 10;

/** With a server nearby, one round trip takes tens of milliseconds, and ten at once take hundreds. */
const SLOW_PROBE_MS = 1_000;

/** After a round trip of this length, one measurement is enough. */
const MUCH_TOO_SLOW_MS = 3_000;

export async function findings(client: Client, options: DoctorOptions): Promise<Finding[]> {
  const inUse = await inspectAllInUse(client, { keys: true });
  const resources = inUse.filter(({ isUnseen }) => !isUnseen);
  const cycles = findDeadlocks(resources);
  const { taskQueue } = options;
  const isSilent = resources.some((seen) => unansweredTaskQueues(seen).includes(taskQueue));
  const asked = async (): Promise<[Polled, Finding[]]> => [
    await pollersBehind(client, resources),
    [
      ...(await server(client, resources)),
      ...(isSilent ? [] : [await pollers(client, taskQueue)]),
      ...(await failingTasks(client)),
      ...stuckFindings(await stuckCallers(client, resources)),
    ],
  ];
  const [polled, found] = await client.withDeadline(Date.now() + ASKED_WITHIN_MS, asked);
  found.push(...silentFindings(resources, polled));
  for (const seen of resources) {
    const own = [...resourceFindings(seen), ...overrides(seen), ...shortHolds(seen, client.options.namespace)];
    const isExplained =
      own.length > 0 ||
      unansweredTaskQueues(seen).length > 0 ||
      cycles.some((steps) => steps.some(({ waitsFor }) => waitsFor === seen.resource));
    found.push(...own, ...longWaits(seen, options.waitingLongerMs, isExplained));
  }
  found.push(...cycles.map((steps) => deadlockFinding(steps, resources)));
  if (resources.length > 0 && found.every(({ is }) => is !== 'bad')) {
    found.push({ is: 'ok', what: `${count(resources.length, 'resource')} in use, no permit is past its lease` });
  }
  if (resources.length < inUse.length) {
    found.push({
      is: 'warning',
      what: `${inUse.length - resources.length} of ${count(inUse.length, 'resource')} in use could not be inspected in time, so their state is unknown`,
      advice:
        'Run doctor again once the permit worker has cached its Workflows, or inspect one resource: temporal-semaphore ls <resource>.',
    });
  }
  if (options.probe) found.push(await probe(client, options.taskQueue));
  return found;
}

async function server({ workflowService }: Client, resources: SeenResource[]): Promise<Finding[]> {
  const { serverVersion = '' } = await workflowService.getSystemInfo({});
  const runIds = resources.flatMap(({ slots }) => slots.flatMap(({ permit }) => permit?.runId ?? []));
  const [major = 0, minor = 0] = serverVersion.split('.').map(Number);
  const [sinceMajor, sinceMinor] = ORDERED_SINCE;
  const ordered =
    runIds.length > 0
      ? runIds.every((runId) => runId[14] === '7')
      : major > sinceMajor || (major === sinceMajor && minor >= sinceMinor);
  const found: Finding[] = [
    ordered
      ? { is: 'ok', what: `server ${serverVersion} generates ordered run IDs, so fencing tokens are ordered` }
      : {
          is: 'bad',
          what: `server ${serverVersion} does not generate ordered run IDs, so fencing tokens are not ordered`,
          advice: `Upgrade the server to ${ORDERED_SINCE.join('.')} or later.`,
        },
  ];
  return found;
}

async function pollers(client: Client, taskQueue: string): Promise<Finding> {
  const polledMs = await pollersOf(client, taskQueue);
  if (polledMs.length > 0) {
    return { is: 'ok', what: `task queue "${taskQueue}" has ${pollersNote(polledMs)}` };
  }
  return {
    is: 'bad',
    what: `no worker polls task queue "${taskQueue}", so no slot there comes free`,
    advice: `Start a permit worker (${workerCommand(taskQueue)}), or name its task queue with --task-queue.`,
  };
}

/** A pause, or a resize for which callers wait. */
function overrides({ resource, override, slots, waiters }: SeenResource): Finding[] {
  if (!override) return [];
  const { paused, capacity = slots.length, fileVersion } = override;
  const why = reasonNote(override);
  if (paused) {
    const advice =
      versionInForce(override) === undefined
        ? `\`temporal-semaphore resume ${shellWord(resource)}\` ends the pause.`
        : `To end the pause, write \`paused: false\` in the limits file and raise its version: without the field, the pause stays. \`temporal-semaphore resume ${shellWord(resource)}\` ends it until a permit worker with --limits sets it again, within a minute.`;
    return [{ is: 'warning', what: `"${resource}" is ${pauseNote(override)}${why}`, advice }];
  }
  if (capacity >= slots.length || waiters.length === 0 || fileVersion !== undefined) return [];
  return [
    {
      is: 'warning',
      what: `"${resource}" is resized to ${capacity} of ${slots.length}${untilNote(override.capacityUntil)}${why}`,
      advice: `\`temporal-semaphore resize ${shellWord(resource)} ${slots.length}\` ends the change.`,
    },
  ];
}

/** Waiters wait for slots whose holders are done, and which Temporal Cloud would not give again yet. */
function shortHolds({ resource, slots, waiters }: SeenResource, namespace: string): Finding[] {
  const leastMs = leastPaceMs(namespace);
  if (leastMs === undefined || waiters.length === 0) return [];
  // A pace counts from the permit's first Workflow Task. One of two seconds or more is the semaphore's own.
  const isKept = ({ permit }: SlotInspection) => Number(permit?.pacedUntil) - Number(permit?.since) < 2 * leastMs;
  if (!slots.some(isKept)) return [];
  return [
    {
      is: 'warning',
      what: `"${resource}": holds are shorter than a second, and Temporal Cloud starts Workflows with the same ID only once a second, so each slot serves one hold a second`,
      advice: 'Use a permit pool, which holds one permit for many calls, or do a batch of work under one permit.',
    },
  ];
}

/** @param isExplained whether another finding says why they wait */
function longWaits({ resource, waiters, slots }: SeenResource, longerMs: number, isExplained: boolean): Finding[] {
  const late = waiters.filter(({ since }) => Date.now() - since.getTime() > longerMs);
  const longest = late.reduce((a, b) => (a && a.since <= b.since ? a : b), late[0]);
  if (!longest) return [];
  const isPaced = slots.some(({ state }) => state === 'paced');
  const cause = isPaced
    ? ' Its pace keeps each slot taken for a while after a hold.'
    : ` The resource may have too few slots.${longestHold(resource, slots, longest.since)}`;
  return [
    {
      is: 'warning',
      what: `"${resource}": ${late.length} waiting for more than ${durationText(longerMs)}, the longest, ${waiterName(longest)}, for ${span(Date.now() - longest.since.getTime())}`,
      advice: `\`temporal-semaphore why\` shows who is ahead and who holds.${isExplained ? '' : cause}`,
    },
  ];
}

/** Names the slot that has been held longest, if the hold began before the wait: its holder may hang. */
function longestHold(resource: string, slots: readonly SlotInspection[], waitsSince: Date): string {
  const holds = slots.flatMap(({ slot, state, permit }) => (state === 'held' && permit ? [{ slot, permit }] : []));
  const [first] = holds.sort((a, b) => a.permit.since.getTime() - b.permit.since.getTime());
  if (!first || first.permit.since > waitsSince) return '';
  const { slot, permit } = first;
  return ` Or the holder of slot "${slot}" hangs, ${holderName(permit.holder)}, which has held it for ${sinceNow(permit.since)}${renewalNote(permit)}: \`temporal-semaphore revoke ${shellWord(resource)} ${shellWord(slot)} --run-id ${permit.runId}\` frees the slot. The holder is notified, but its work is not stopped by force.`;
}

/** A holder that hangs may go on renewing; one that has died does not. */
function renewalNote({ renewedAt, leaseDeadline }: PermitInspection): string {
  if (!renewedAt || !leaseDeadline) return '';
  return ` (no renewal for ${sinceNow(renewedAt)}; its lease ends in ${fromNow(leaseDeadline)} unless it is renewed)`;
}

/** Measures one round trip, and ten at once: only ten at once show whether the server is held back. */
async function probe(client: Client, taskQueue: string): Promise<Finding> {
  // All probes share one name, since each resource is a series of each metric. The capacity has room for all of them: on Temporal Cloud,
  // each keeps its slot for a second.
  const options = { capacity: 1_000, taskQueue, lease: '15s' } as const;
  const semaphore = new SemaphoreClient(client, 'temporal-semaphore-doctor', options);
  try {
    const once = () => roundTrip(client, semaphore);
    const oneMs = await medianMs(once);
    const tenMs = await medianMs(() => Promise.all(Array.from({ length: AT_ONCE }, once)));
    const what = `one acquire and release takes ${oneMs} ms, ${AT_ONCE} at once take ${tenMs} ms`;
    if (Math.max(oneMs, tenMs) < SLOW_PROBE_MS) return { is: 'ok', what };
    return { is: 'warning', what, advice: (await isDevelopmentServer(client)) ? DEVELOPMENT_ADVICE : SLOW_ADVICE };
  } catch (error) {
    if (error instanceof NotReleasedError) {
      const what = `no worker on task queue "${taskQueue}" has carried out the release of ${error.message}`;
      return { is: 'bad', what, advice: silentRemedy(taskQueue, await pollersOf(client, taskQueue)) };
    }
    if (!(error instanceof PermitTimeoutError || error instanceof NoAnswerError)) throw error;
    return { is: 'bad', what: error.message };
  }
}

const SLOW_ADVICE = 'The server may be far away, or the server or the permit worker may be overloaded.';
const DEVELOPMENT_ADVICE =
  'A development server with its default settings waits up to 50 ms at each step: start it with --dynamic-config-value history.transferProcessorMaxPollRPS=10000 and history.timerProcessorMaxPollRPS=10000. Or the server or the permit worker is overloaded.';

/** A permit still runs although it was released, and its lease is over. */
class NotReleasedError extends Error {}

/** Acquires a permit, releases it, and waits for its end. @throws NotReleasedError */
async function roundTrip(client: Client, semaphore: SemaphoreClient): Promise<void> {
  const permit = await semaphore.acquire({ timeout: PROBE_WITHIN_MS, purpose: 'temporal-semaphore doctor' });
  await permit.release();
  if (Date.now() < permit.deadline.getTime()) return;
  const { workflowId, runId } = permit;
  if (isOpen(await client.workflow.getHandle(workflowId, runId).describe())) throw new NotReleasedError(workflowId);
}

async function medianMs(step: () => Promise<unknown>): Promise<number> {
  const timesMs: number[] = [];
  while (timesMs.length < PROBES && (timesMs.at(-1) ?? 0) < MUCH_TOO_SLOW_MS) {
    const sinceMs = monotonicMs();
    await step();
    timesMs.push(monotonicMs() - sinceMs);
  }
  return Math.round(timesMs.sort((a, b) => a - b)[Math.floor(timesMs.length / 2)] ?? 0);
}

/** `false` also for a server that does not say where it keeps its state. */
async function isDevelopmentServer({ workflowService }: Client): Promise<boolean> {
  try {
    return (await workflowService.getClusterInfo({})).persistenceStore === 'sqlite';
  } catch (error) {
    if (!isGrpcServiceError(error)) throw error;
    return false;
  }
}

/** What the SDK's worker answers for a Workflow type that its bundle does not export. */
const NOT_EXPORTED = /no such function is exported by the workflow bundle/;

/** Workflows of this library that run and can't go on. */
export async function failingTasks(client: Client): Promise<Finding[]> {
  return (await stuckWorkflows(client)).map(finding);
}

function finding({ type, reason, runs }: StuckWorkflows): Finding {
  const queues = [...new Set(runs.map(({ taskQueue }) => `"${taskQueue}"`))].join(', ');
  if (NOT_EXPORTED.test(reason)) {
    return {
      is: 'bad',
      what: `a worker of task queue ${queues} has no ${type}: ${count(runs.length, 'Workflow')} can't go on`,
      advice: "Its Workflows file needs: export * from 'temporal-semaphore/workflows';",
    };
  }
  return {
    is: 'bad',
    what: `${runs[0]?.workflowId} on task queue ${queues} can't go on because its Workflow Task fails: ${reason}`,
    advice: "See the worker's log.",
  };
}
