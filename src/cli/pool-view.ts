import type { SlotInspection, WaiterInspection } from '../client/inspection';
import { paint, table } from './paint';
import type { SeenPool } from './pool';
import { holderName, plain, sinceNow, span } from './render';

/** A pool as people read it; at most `rows` slots and as many waiters. */
export function drawPool(pool: SeenPool, rows = Number.POSITIVE_INFINITY): string {
  const { slots, waiters } = pool;
  const lines = [headline(pool)];
  if (slots.length > 0) {
    const head = ['slot', 'state', 'holder', 'for', 'lease left', 'purpose', 'fencing token'];
    lines.push(
      '',
      table(head, slots.slice(0, rows).map(slotRow), ['right', 'left', 'left', 'right', 'right', 'left', 'left']),
    );
    if (slots.length > rows) lines.push(paint.dim(`… and ${slots.length - rows} more slots`));
  }
  if (waiters.length > 0) {
    const head = ['place', 'waiter', 'for', 'priority', 'key', 'turn'];
    lines.push(
      '',
      table(head, waiters.slice(0, rows).map(waiterRow), ['right', 'left', 'right', 'right', 'left', 'left']),
    );
    if (waiters.length > rows) lines.push(paint.dim(`… and ${waiters.length - rows} more waiters`));
  }
  return lines.concat(pastLines(pool)).join('\n');
}

/** `gpu-pool: 2 of 3 held, 4 waiting` */
export function headline(pool: SeenPool): string {
  const { resource, capacity, slots, waiters, queue, override } = pool;
  const held = slots.filter(({ state }) => state === 'held').length;
  const drained = slots.filter(({ state }) => state === 'drained').length;
  const parts = [
    `${held}${capacity === undefined ? '' : ` of ${capacity}`} held`,
    ...(drained > 0 ? [`${drained} drained`] : []),
    queue === 'silent' ? paint.red('no worker answers for the queue') : `${waiters.length} waiting`,
  ];
  const note = override ? overrideNote(override) : '';
  return `${plain(resource)}: ${parts.join(', ')}${note && paint.yellow(` [${note}]`)}`;
}

/** `paused: node drain` */
export function overrideNote({ paused, capacity, reason }: NonNullable<SeenPool['override']>): string {
  const what = paused ? 'paused' : `resized to ${capacity}`;
  return reason === undefined ? what : `${what}: ${plain(reason)}`;
}

function slotRow({ slot, state, permit }: SlotInspection): string[] {
  if (!permit) return [plain(slot), paint.dim(state)];
  const { holder, since, leaseDeadline, purpose = '', runId } = permit;
  const left = leaseDeadline ? leaseDeadline.getTime() - Date.now() : undefined;
  return [
    plain(slot),
    state === 'held' ? paint.green(state) : paint.yellow(state),
    state === 'held' ? holderName(holder) : '',
    sinceNow(since),
    left === undefined ? '?' : left < 0 ? paint.red('over') : span(left),
    state === 'held' ? plain(purpose) : '',
    runId,
  ];
}

function waiterRow(waiter: WaiterInspection): string[] {
  const { place, since, priorityKey, fairnessKey = '', turn } = waiter;
  const called = turn === undefined ? '' : `slot ${plain(turn)}`;
  return [String(place), waiterName(waiter), sinceNow(since), String(priorityKey), plain(fairnessKey), called];
}

/** Somebody outside Workflows waits through a Workflow whose ID says nothing. */
export function waiterName({ identity, workflowId }: WaiterInspection): string {
  return plain(identity ?? workflowId);
}

function pastLines({ recent }: SeenPool): string[] {
  if (recent.length === 0) return [];
  const rows = recent.map(({ slot, holder, from, to, outcome }) => [
    plain(slot),
    holderName(holder),
    span(to.getTime() - from.getTime()),
    sinceNow(to),
    outcome,
  ]);
  return [
    '',
    table(['slot', 'held until lately by', 'for', 'ended', 'how'], rows, ['right', 'left', 'right', 'right', 'left']),
  ];
}
