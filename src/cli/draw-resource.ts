import { workerCommand } from '../client/server/commands';
import type { Inspection, Override, PastHold, SlotInspection, WaiterInspection } from '../operator';
import { pausedIn } from '../operator/paused';
import { shownPurpose, strangersLine } from '../operator/reader';
import { strangersRemedy } from '../operator/remedies';
import type { SeenResource } from '../operator/resources-in-use';
import { queueId } from '../shared/permit-id';
import { holderName } from './terminal';
import { type Align, dim, green, red, Text, table, text, yellow } from './text';
import {
  disagreementLine,
  disagreementRemedy,
  fromNow,
  pauseNote,
  reasonNote,
  resizeNote,
  sinceNow,
  span,
} from './wording';

interface Drawing {
  /** At most this many slots, and as many waiters. @default all */
  rows?: number;
  /** With the run IDs. @default false */
  wide?: boolean;
}

interface Columns {
  head: string[];
  align: Align[];
}

const SLOTS: Columns = {
  head: ['slot', 'state', 'holder', 'for', 'lease left', 'purpose'],
  align: ['right', 'left', 'left', 'right', 'right', 'left'],
};
const WAITERS: Columns = {
  head: ['place', 'waiter', 'for', 'priority', 'key', 'turn'],
  align: ['right', 'left', 'right', 'right', 'left', 'left'],
};
const PAST: Columns = {
  head: ['slot', 'last holder', 'for', 'ended', 'how'],
  align: ['right', 'left', 'right', 'right', 'left'],
};

/** A resource as people read it. */
export function drawResource(
  seen: SeenResource,
  { rows = Number.POSITIVE_INFINITY, wide = false }: Drawing = {},
): Text {
  const { slots, waiters, recent } = seen;
  const drawn = ({ head, align }: Columns, cells: unknown[][], runIds: (string | undefined)[]) =>
    wide
      ? table(
          [...head, 'run ID'],
          cells.map((row, index) => [...row, runIds[index] ?? '']),
          [...align, 'left'],
          Number.POSITIVE_INFINITY,
        )
      : table(head, cells, align);
  const lines: unknown[] = [headline(seen)];
  if (seen.disagreement) lines.push(yellow(disagreementLine(seen.disagreement)), disagreementRemedy(seen));
  for (const { what, advice } of pausedIn(seen)) lines.push(yellow(what), advice);
  if (seen.strangers) lines.push(red(strangersLine(seen.strangers)), strangersRemedy(seen.strangers));
  if (seen.unqueued && unansweredTaskQueues(seen).length === 0) lines.push(unqueuedRemedy(seen));
  if (slots.length > 0) {
    const shown = slots.slice(0, rows);
    lines.push(
      '',
      drawn(
        SLOTS,
        shown.map((slot) => slotRow(slot, seen)),
        shown.map(({ permit }) => permit?.runId),
      ),
    );
    if (slots.length > rows) lines.push(dim(`… and ${slots.length - rows} more slots`));
    lines.push(...unansweredNotes(seen));
  }
  if (waiters.length > 0) {
    const shown = waiters.slice(0, rows);
    lines.push(
      '',
      drawn(
        WAITERS,
        shown.map(waiterRow),
        shown.map(({ runId }) => runId),
      ),
    );
    if (waiters.length > rows) lines.push(dim(`… and ${waiters.length - rows} more waiters`));
  }
  if (recent.length > 0)
    lines.push(
      '',
      drawn(
        PAST,
        recent.map(pastRow),
        recent.map(({ runId }) => runId),
      ),
    );
  return Text.lines(lines);
}

/** `gpu-pool: 2 of 3 held, 4 waiting` */
export function headline(seen: SeenResource): Text {
  const { resource, waiting, override } = seen;
  const drained = seen.slots.filter(({ state }) => state === 'drained').length;
  const taken = drained > 0 ? text`${heldOf(seen)}, ${drained} drained` : heldOf(seen);
  const line = waiting === undefined ? red(silenceOf(seen)) : `${waiting} waiting`;
  const note = override ? text` ${yellow(text`[${overrideNote(override)}]`)}` : '';
  return text`${resource}: ${taken}, ${line}${note}`;
}

/** Why it is unknown who waits. */
export function silenceOf(seen: SeenResource): string {
  const { resource, queue, taskQueue, strangers, problem, unqueued } = seen;
  if (problem !== undefined) return problem;
  if (unqueued) return `no queue runs${lostQueueNote(seen)}, but ${unqueuedNote(unqueued)}`;
  const stranger = strangers?.find(({ workflowId }) => workflowId === queueId(resource));
  if (queue === 'paused') return 'its queue is paused on the server';
  if (stranger) return `a Workflow of type "${stranger.type}" has the queue's ID`;
  return `no worker answers for the queue${taskQueue === undefined ? '' : ` on task queue "${taskQueue}"`}`;
}

/** ` (the last one has ended: terminated)`; empty if the last queue has ended because no caller waited and nothing was set. */
function lostQueueNote({ queueEnded = 'COMPLETED' }: SeenResource): string {
  return queueEnded === 'COMPLETED' ? '' : ` (the last one has ended: ${queueEnded.toLowerCase().replace('_', ' ')})`;
}

/** What ends a wait without a queue. */
export function unqueuedRemedy(seen: SeenResource): string {
  const lost = lostQueueNote(seen) && ' What resize or pause had set is lost with the last queue: set it again.';
  const silent = unansweredTaskQueues(seen).find((name) => seen.unqueued?.some(({ taskQueue }) => taskQueue === name));
  if (silent === undefined)
    return `If a permit worker runs, one of these clients starts a queue within 5 minutes.${lost}`;
  return `No worker answers on task queue "${silent}". Start one: ${workerCommand(silent)}${lost && `.${lost}`}`;
}

/** `2 clients wait: permit-waiter:gpu-pool:… and 1 more` */
function unqueuedNote([first, ...more]: readonly { workflowId: string }[]): string {
  if (more.length === 0) return `1 client waits: ${first?.workflowId}`;
  return `${more.length + 1} clients wait: ${first?.workflowId} and ${more.length} more`;
}

/** `2 of 3 held`; after a resize maybe `3 of 2 held (1 until released)`. If callers disagree, one may take such a slot again. */
export function heldOf({ capacity, held, disagreement }: Pick<Inspection, 'capacity' | 'held' | 'disagreement'>): Text {
  if (capacity === undefined) return text`${held} held`;
  const more = held > capacity && !disagreement ? text` (${held - capacity} until released)` : '';
  return text`${held} of ${capacity} held${more}`;
}

/** `paused: node drain`, `paused, and resized to 1`, `paused until 2027-01-31T18:00:00.000Z`, `resized to 5: two more GPUs` */
export function overrideNote(override: Override): Text {
  const { paused, capacity, capacityUntil } = override;
  const isResized = capacity !== undefined || capacityUntil !== undefined;
  const what = [...(paused ? [pauseNote(override)] : []), ...(isResized || !paused ? [resizeNote(override)] : [])];
  return text`${what.join(', and ')}${reasonNote(override)}`;
}

function slotRow(inspection: SlotInspection, seen: Inspection): unknown[] {
  const { slot, state, permit } = inspection;
  if (!permit) return [slot, dim(state)];
  return [
    slot,
    stateShown(inspection),
    state === 'drained' ? '' : whoHas(inspection, seen),
    sinceNow(permit.since),
    leaseLeft(inspection),
    state === 'held' ? shownPurpose(permit) : '',
  ];
}

/** How long the lease of a holder lasts. A drained or paced slot has no holder, and no lease ends a paused permit. */
export function leaseLeft({ state, permit }: SlotInspection): unknown {
  if (!permit || permit.paused) return '';
  if (!permit.leaseDeadline) return '?';
  const leftMs = permit.leaseDeadline.getTime() - Date.now();
  if (state !== 'held') return '';
  return leftMs < 0 ? red('over') : span(leftMs);
}

function stateShown({ state, permit }: SlotInspection): Text {
  if (permit?.paused) return red('paused');
  if (permit?.preemptedUntil) return yellow('gives way');
  return state === 'held' ? green(state) : yellow(state);
}

function waiterRow(waiter: WaiterInspection): unknown[] {
  const { place, since, priorityKey, fairnessKey, turn } = waiter;
  const called = turn === undefined ? '' : text`slot ${turn}`;
  return [
    place,
    shownWaiter(waiter),
    sinceNow(since),
    priorityKey,
    fairnessKey,
    waiter.paused ? yellow('paused') : called,
  ];
}

function pastRow({ slot, holder, from, to, outcome }: PastHold): unknown[] {
  return [slot, holderName(holder), span(to.getTime() - from.getTime()), sinceNow(to), outcome];
}

/** Who has a slot that is not free: its holder, or what keeps the slot without one. */
export function whoHas(inspection: SlotInspection, seen: Pick<Inspection, 'strangers'>): unknown {
  const { state, permit } = inspection;
  if (state === 'drained') return yellow('no holder: drained');
  if (permit?.pacedUntil) return yellow(`no holder: paced, free in ${fromNow(permit.pacedUntil)}`);
  const stranger = strangerIn(inspection, seen);
  return stranger ? red(text`a Workflow of type "${stranger.type}"`) : holderName(permit?.holder ?? {});
}

function strangerIn({ permit }: SlotInspection, { strangers }: Pick<Inspection, 'strangers'>) {
  return strangers?.find(({ workflowId }) => workflowId === permit?.workflowId);
}

/** Whether no worker says how long the lease of this permit lasts, although a query has asked for it. */
export function isUnanswered(slot: SlotInspection, seen: Inspection): boolean {
  const { permit } = slot;
  if (permit === undefined || permit.leaseSpared || permit.paused) return false;
  return !permit.leaseDeadline && !strangerIn(slot, seen);
}

/** Whether no worker answers for the queue. */
export function isQueueUnanswered({ queue, strangers }: Inspection): boolean {
  return queue === 'silent' && !strangers;
}

/** Where no worker answers for a permit or for the queue. */
export function unansweredTaskQueues(seen: SeenResource): string[] {
  const { taskQueue } = seen;
  const ofQueue = isQueueUnanswered(seen) && taskQueue !== undefined ? [taskQueue] : [];
  return [...new Set([...ofPermits(seen), ...ofQueue])];
}

function ofPermits(seen: Inspection): string[] {
  return seen.slots.flatMap((slot) => (slot.permit && isUnanswered(slot, seen) ? slot.permit.taskQueue : []));
}

/** The most task queues to name: any client may start permits on thousands. */
const NAMED = 3;

function unansweredNotes(seen: Inspection): Text[] {
  return [...new Set(ofPermits(seen))]
    .slice(0, NAMED)
    .map((taskQueue) =>
      yellow(
        text`No worker answers for the permits marked "?". If no permit worker runs, start one: ${workerCommand(taskQueue)}`,
      ),
    );
}

/** With a mark where a permit pool waits. */
export function shownWaiter(waiter: WaiterInspection): string {
  return waiter.permitPool === undefined ? waiterName(waiter) : `${waiterName(waiter)} (permit pool)`;
}

/** The client's identity, if the Workflow waits for a client: its ID says nothing then. Else the Workflow ID. Unescaped: `Text` escapes it. */
export function waiterName({ identity, workflowId }: WaiterInspection): string {
  return identity ?? workflowId;
}
