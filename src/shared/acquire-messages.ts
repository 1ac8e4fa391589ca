import { durationText } from './duration';

// The messages of the errors with which an acquire ends without a permit, in Workflows and outside.

/** The message of a `PermitTimeoutError`. @param own how many permits the caller waits for while it holds them itself */
export function timeoutMessage(resource: string, timeoutMs: number, own = 0): string {
  const when = timeoutMs === 0 ? 'is free' : `came free within ${durationText(timeoutMs)}`;
  const none = `No permit of "${resource}" ${when}`;
  if (own > 0) {
    const held = `its caller holds ${own === 1 ? 'one' : own} itself`;
    return `${none}: ${held}. Use a permit that it holds, or set reentrant.`;
  }
  if (timeoutMs === 0) return `${none}: all slots are held. Try later, or give a timeout to wait.`;
  return `${none}. Wait longer, or add capacity.`;
}

/** The message of a `SelfDeadlockError`. */
export function selfDeadlockMessage(resource: string, held: number, capacity: number): string {
  return (
    `Deadlock: this caller already holds ${held} of the ${capacity} permits of "${resource}" and would wait for itself indefinitely. ` +
    'Use a permit that it holds, set reentrant, or give a timeout.'
  );
}

/** The message of a `LineFullError`. @param superseded whether a later caller has the place of this one */
export function lineFullMessage(resource: string, maxWaiting: number, superseded: boolean): string {
  if (superseded)
    return `A later caller has taken this one's place in the queue of "${resource}": maxWaiting is ${maxWaiting}, and whenFull is "drop-oldest".`;
  return `No permit of "${resource}" is free, and the queue is full: maxWaiting is ${maxWaiting}. Try later.`;
}
