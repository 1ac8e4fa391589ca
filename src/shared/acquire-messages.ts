import { durationText } from './duration';

// The messages of the errors with which an acquire ends without a permit, in Workflows and outside.

/** The message of a `PermitTimeoutError`. @param own how many permits the caller waits for while it holds them itself */
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

/** The message of a `SelfDeadlockError`. */
export function selfDeadlockMessage(resource: string, held: number, capacity: number): string {
  return (
    `This would wait for itself for ever: its caller holds ${held} of the ${capacity} permits of "${resource}" already. ` +
    'Use the permit that is held, or give a timeout.'
  );
}

/** The message of a `LineFullError`. */
export function lineFullMessage(resource: string, maxWaiting: number): string {
  return `No permit of "${resource}" is free, and the line is full: maxWaiting is ${maxWaiting}. Try later.`;
}
