import type { Client } from '@temporalio/client';
import { shellWord, workerCommand } from '../client/server/commands';
import { mapConcurrently } from '../client/server/map-concurrently';
import { pollersOf } from '../client/server/pollers';
import type { SlotInspection } from '../operator';
import { addTo } from '../operator/add-to';
import { childrenBehindParents, type DeadlockStep, lastTaken } from '../operator/deadlocks';
import { type Paused, pausedCaller, pausedIn } from '../operator/paused';
import { strangersLine } from '../operator/reader';
import { strangersRemedy } from '../operator/remedies';
import type { SeenResource } from '../operator/resources-in-use';
import type { StuckCaller } from '../operator/stuck-workflows';
import { isQueueUnanswered, isUnanswered, silenceOf, unansweredTaskQueues, unqueuedRemedy } from './draw-resource';
import { holderName } from './terminal';
import { dim, green, red, Text, text, yellow } from './text';
import { count, deadlockLine, disagreementLine, disagreementRemedy, span } from './wording';

// What is wrong with a resource, as `doctor` and `why` say it.

/** One result of the examination. */
export interface Finding {
  is: 'ok' | 'warning' | 'bad';
  what: string;
  advice?: string;
}

const MARKS = { ok: green('ok  '), warning: yellow('warn'), bad: red('bad ') };

export function drawFinding({ is, what, advice }: Finding): Text {
  const first = text`${MARKS[is]}  ${what}`;
  return advice === undefined ? first : Text.lines([first, text`      ${dim(advice)}`]);
}

/** How late a permit may end: its worker may be slow, and the server's timer a second late. */
const LEASE_SLACK_MS = 5_000;

/** The most task queues to ask about: any client may start permits on thousands. */
const ASKED_FOR = 20;

/**
 * When each worker began its last poll of each task queue from which no worker answers, in epoch milliseconds. Task queues beyond
 * `ASKED_FOR` are missing.
 */
export type Polled = ReadonlyMap<string, readonly number[]>;

export async function pollersBehind(client: Client, resources: readonly SeenResource[]): Promise<Polled> {
  return await pollersOn(client, resources.flatMap(unansweredTaskQueues));
}

/** @param taskQueues maybe with repetitions */
export async function pollersOn(client: Client, taskQueues: readonly string[]): Promise<Polled> {
  const asked = [...new Set(taskQueues)].slice(0, ASKED_FOR);
  const polled = await mapConcurrently(asked, async (taskQueue): Promise<[string, number[]]> => {
    return [taskQueue, await pollersOf(client, taskQueue)];
  });
  return new Map(polled);
}

export function resourceFindings(seen: SeenResource): Finding[] {
  const { resource, disagreement, problem, strangers } = seen;
  if (problem !== undefined) return [{ is: 'bad', what: `"${resource}" can't be inspected: ${problem}` }];
  const found: Finding[] = [];
  if (strangers)
    found.push({ is: 'bad', what: `"${resource}": ${strangersLine(strangers)}`, advice: strangersRemedy(strangers) });
  found.push(...pausedFindings(seen), ...overdue(seen), ...leftDrained(seen), ...waitingChildren(seen));
  if (seen.unqueued) {
    found.push({ is: 'warning', what: `"${resource}": ${silenceOf(seen)}`, advice: unqueuedRemedy(seen) });
  }
  if (disagreement) {
    found.push({
      is: 'warning',
      what: `"${resource}": ${disagreementLine(disagreement)}`,
      advice: disagreementRemedy(seen),
    });
  }
  return found;
}

function named({ resource }: SeenResource, [first, ...more]: SlotInspection[]): string {
  const has = first?.state === 'drained' ? 'drained' : `held by ${holderName(first?.permit?.holder ?? {})}`;
  return `slot "${first?.slot}" of "${resource}", ${has}${andMore(more.length)}`;
}

function andMore(more: number): string {
  return more > 0 ? `, and ${more} more` : '';
}

/**
 * One finding for each task queue on which permits or queues get no answer: there may be a thousand slots.
 * @param all the resources that tell whether a worker answers on a task queue for any Workflow
 */
export function silentFindings(resources: readonly SeenResource[], polled: Polled, all = resources): Finding[] {
  const silent = new Map<string, string[]>();
  for (const seen of resources) {
    for (const slot of seen.slots) {
      if (slot.permit && isUnanswered(slot, seen)) addTo(silent, slot.permit.taskQueue, named(seen, [slot]));
    }
    const { resource, taskQueue } = seen; // a resource that could not be inspected has no task queue
    if (isQueueUnanswered(seen) && taskQueue !== undefined) addTo(silent, taskQueue, `the queue of "${resource}"`);
  }
  const answering = new Set(all.flatMap(answeringTaskQueues));
  return [...silent].map(([taskQueue, [first, ...more]]) => ({
    is: 'bad',
    what: `${first}${andMore(more.length)}: no worker answers on task queue "${taskQueue}"${whoPolls(polled.get(taskQueue))}`,
    advice: `Until a worker answers, no slot comes free. ${silentRemedy(taskQueue, polled.get(taskQueue), answering.has(taskQueue))}`,
  }));
}

function answeringTaskQueues({ slots, queue, taskQueue }: SeenResource): string[] {
  const ofPermits = slots.flatMap(({ permit }) => (permit?.leaseDeadline ? permit.taskQueue : []));
  return queue === 'running' && taskQueue !== undefined ? [...ofPermits, taskQueue] : ofPermits;
}

/** A parent that holds the only permit while its child waits for one. */
export function waitingChildren(seen: SeenResource): Finding[] {
  const [first, ...more] = childrenBehindParents(seen);
  if (!first) return [];
  const others = more.length > 0 ? `, and so do the holders of ${count(more.length, 'other slot')}` : '';
  return [
    {
      is: 'warning',
      what: `"${seen.resource}": ${first.parent} holds a permit while its child ${first.child} waits for one${others}; no other permit can come free`,
      advice:
        "If the parent waits for its child, neither can continue. Start the child outside withPermit, or let it run under the parent's permit instead of its own.",
    },
  ];
}

function whoPolls(polledMs: readonly number[] | undefined): string {
  if (polledMs === undefined) return '';
  return polledMs.length === 0 ? ', and no worker polls it' : `, which has ${pollersNote(polledMs)}`;
}

/** `2 pollers, last seen 38.2 s ago` */
export function pollersNote(polledMs: readonly number[]): string {
  return `${count(polledMs.length, 'poller')}, last seen ${span(Date.now() - Math.max(...polledMs))} ago`;
}

/** @param isAnswering whether a worker answers for other Workflows on the task queue */
export function silentRemedy(taskQueue: string, polledMs: readonly number[] = [], isAnswering = false): string {
  const causes = "is overloaded, is not a permit worker, or can't read payloads: read its log.";
  if (isAnswering) return `The worker there ${causes}`;
  if (polledMs.length === 0) return `Start a permit worker there: ${workerCommand(taskQueue)}`;
  return `The worker there has probably ended: the server lists the pollers of a stopped worker for some minutes. Start one: ${workerCommand(taskQueue)}. If a worker runs there, it ${causes}`;
}

function overdue(seen: SeenResource): Finding[] {
  const overMs = ({ permit }: SlotInspection) => Date.now() - (permit?.leaseDeadline?.getTime() ?? Date.now());
  const over = seen.slots.filter((slot) => overMs(slot) >= LEASE_SLACK_MS).sort((a, b) => overMs(b) - overMs(a));
  const [longest] = over;
  if (!longest) return [];
  return [
    {
      is: 'bad',
      what: `${named(seen, over)}: its lease ended ${span(overMs(longest))} ago`,
      advice: 'The permit worker is down or overloaded. Start one, or terminate the permit.',
    },
  ];
}

/** The permit that keeps a slot out of use outlives a queue that was terminated, although no override is set any more. */
function leftDrained({ resource, slots, queue, capacity }: SeenResource): Finding[] {
  const left = slots.filter(({ state }) => state === 'drained');
  if (left.length === 0 || queue !== 'none') return [];
  const names = left.map(({ slot }) => `"${slot}"`).join(', ');
  return [
    {
      is: 'bad',
      what: `slot ${names} of "${resource}" is still out of use after an operator command, although its queue was terminated`,
      advice: `\`temporal-semaphore resume ${shellWord(resource)} ${slotsFlag(slots, capacity)}\` frees them; give the slots that callers declare. So does the next waiter; otherwise, each slot comes free within an hour. With its queue, the resource has lost what operators had set: set it again. A permit worker with --limits restores only what its file says.`,
    },
  ];
}

/** The slots of a resource as far as they were seen. */
function slotsFlag(slots: readonly SlotInspection[], capacity = 0): string {
  const names = slots.map(({ slot }) => slot);
  if (!names.every((name) => /^\d+$/.test(name))) return `--slots ${shellWord(names.join(','))}`;
  return `--capacity ${Math.max(capacity, ...names.map((name) => Number(name) + 1))}`;
}

export function deadlockFinding(steps: readonly DeadlockStep[], resources: readonly SeenResource[]): Finding {
  const taken = lastTaken(steps, resources);
  const order = 'withPermits acquires several resources in a fixed order, so that callers cannot deadlock.';
  const revoke =
    taken &&
    `temporal-semaphore revoke ${shellWord(taken.resource)} ${shellWord(taken.slot)} --run-id ${taken.permit.runId}`;
  return {
    is: 'bad',
    what: `deadlock: ${deadlockLine(steps)}`,
    advice: revoke
      ? `To break the deadlock, revoke a permit, such as the one held shortest: ${revoke}. Its holder, ${holderName(taken.permit.holder)}, gets PermitLostError, and fails unless it catches the error. ${order}`
      : order,
  };
}

/** What the SDK says of a Workflow whose code has changed since it began. */
const NONDETERMINISM = /TMPRL1100|[Nn]ondeterminism/;

/** A deploy may break all Workflows of a resource, each with another text. */
export function stuckFindings(stuck: readonly StuckCaller[]): Finding[] {
  const alike = new Map<string, StuckCaller[]>();
  for (const caller of stuck) addTo(alike, kindOf(caller), caller);
  return [...alike.values()].flatMap(([first, ...more]) => {
    if (!first) return [];
    const { workflowId, resource, slot, standstill } = first;
    if (standstill === 'paused') return pausedFinding(pausedCaller(first, more.length));
    const does = slot === undefined ? 'waits for a permit' : `holds slot "${slot}"`;
    const others = more.length > 0 ? `, and ${more.length} more like it` : '';
    return stuckFinding(`${workflowId}, which ${does} of "${resource}"${others},`, standstill.fails);
  });
}

function kindOf({ resource, slot, standstill }: StuckCaller): string {
  if (standstill === 'paused') return JSON.stringify([resource, standstill, slot !== undefined]);
  return JSON.stringify([resource, NONDETERMINISM.test(standstill.fails) ? '' : standstill.fails]);
}

export function pausedFinding({ stops, what, advice }: Paused): Finding {
  return { is: stops ? 'bad' : 'warning', what, advice };
}

/** What is paused of a resource, but for the Workflows of its holders. */
export function pausedFindings(seen: SeenResource): Finding[] {
  return pausedIn(seen).map(pausedFinding);
}

/** @param who a Workflow */
export function stuckFinding(who: string, reason: string): Finding {
  const changed =
    'Its code has changed since it began. If the change is a capacity or another option of a semaphore, name the former value in `before`, such as { capacity: 4, before: [{ capacity: 3 }] }, and deploy again. ';
  return {
    is: 'bad',
    what: `${who} can't go on: its Workflow Task fails: ${reason}`,
    advice: `${NONDETERMINISM.test(reason) ? changed : ''}See its worker's log.`,
  };
}
