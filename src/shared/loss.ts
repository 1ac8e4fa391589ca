import { durationText } from './duration';
import type { ResolvedAcquire, ResolvedSemaphore } from './options';
import type { PermitAddress } from './permit-id';
import type { PermitOutcome } from './protocol';

/**
 * How a permit can end without its holder's release. `not-found`: the server has no such run. `unknown`: nothing says how; a
 * Workflow that adopts can't tell either from a run that never was.
 */
export type PermitLoss = PermitOutcome | 'terminated' | 'timed-out' | 'failed' | 'not-found' | 'unknown';

/** Whether a permit ended by time alone. By its own clock, its holder can tell that its work was done before. */
export function isEndByTime(how: PermitLoss): boolean {
  return how === 'lease-expired' || how === 'timed-out';
}

const LOSS_TOLD: Record<PermitLoss, string> = {
  released: 'it was released or cancelled',
  'lease-expired': 'its lease ended before a renewal came',
  revoked: 'an operator revoked it',
  preempted: 'a waiter of higher priority has asked for it',
  terminated: 'its Workflow was terminated',
  'timed-out': 'it was held for longer than maxHold',
  failed: 'its Workflow failed',
  'not-found': 'the server has no such run: it never was, or was deleted since',
  unknown: 'it runs no more, or never did, and nothing says how it ended',
};

/** How a permit ended, as a message says it; `unknown` where it says nothing that we know. */
export function readLoss(value: unknown): PermitLoss {
  return typeof value === 'string' && Object.hasOwn(LOSS_TOLD, value) ? (value as PermitLoss) : 'unknown';
}

/** The message of a `PermitLostError`, in Workflows and outside. */
export function lossMessage(
  { resource, slot }: PermitAddress,
  runId: string,
  how: PermitLoss,
  reason?: string,
): string {
  return `The permit of "${resource}", slot "${slot}", run ${runId} was lost: ${LOSS_TOLD[how]}${reason ? ` (${reason})` : ''}.`;
}

/** The message of a `PermitTimeoutError`, in Workflows and outside. @param own what {@link waitsForItself} says */
export function timeoutMessage(resource: string, timeoutMs: number, own = 0): string {
  if (own > 0) {
    return ownTimeoutMessage(resource, timeoutMs, own, 'Use the permit that is held, or set reentrant.');
  }
  if (timeoutMs === 0)
    return `No permit of "${resource}" is free: all slots are held. Try later, or give a timeout to wait.`;
  return `No permit of "${resource}" came free within ${durationText(timeoutMs)}. Wait longer, or add capacity.`;
}

/** To a caller that has waited for permits which it holds itself. */
export function ownTimeoutMessage(resource: string, timeoutMs: number, own: number, advice: string): string {
  const when = timeoutMs === 0 ? 'is free' : `came free within ${durationText(timeoutMs)}`;
  return `No permit of "${resource}" ${when}: its caller holds ${own === 1 ? 'one' : own} itself. ${advice}`;
}

/** The message of a `SelfDeadlockError`, in Workflows and outside. */
export function selfDeadlockMessage(resource: string, held: number, capacity: number): string {
  return (
    `This would wait for itself for ever: its caller holds ${held} of the ${capacity} permits of "${resource}" already. ` +
    'Use the permit that is held, or give a timeout.'
  );
}

/**
 * How many permits of the pool the caller holds itself, if it would wait for them for ever; 0 if it would not. Permits are
 * not reentrant, for each has one fencing token: to hold one is no reason to get another.
 *
 * @param held the resources of the permits under which the calling code runs
 * @param wanted how many it asks for
 */
export function waitsForItself(
  { resource, slots }: Pick<ResolvedSemaphore, 'resource' | 'slots'>,
  { timeoutMs }: Pick<ResolvedAcquire, 'timeoutMs'>,
  held: readonly string[],
  wanted = 1,
): number {
  const own = held.filter((it) => it === resource).length;
  return timeoutMs === Number.POSITIVE_INFINITY && own > 0 && own + wanted > slots.length ? own : 0;
}

/** The message of a `LineFullError`, in Workflows and outside. */
export function lineFullMessage(resource: string, maxWaiting: number): string {
  return `No permit of "${resource}" is free, and the line is full: maxWaiting is ${maxWaiting}. Try later.`;
}
