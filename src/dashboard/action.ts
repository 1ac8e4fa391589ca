import { refuse } from '../shared/check';
import { MAX_REASON_LENGTH } from '../shared/protocol';
import type { Hub } from './hub';
import type { Action } from './page-protocol';
import type { ResourceOperator } from './poller';

/** Checks the action that a page asks for. @throws InvalidOptionsError */
export function parseAction(input: unknown): Action {
  if (typeof input !== 'object' || input === null) refuse('request', 'an object', input);
  const fields = input as Record<string, unknown>;
  const resource = text(fields, 'resource');
  const reason = fields.reason === undefined ? '' : text(fields, 'reason', true);
  const ifVersion = fields.ifVersion === undefined ? undefined : wholeNumber(fields, 'ifVersion');
  if (reason.length > MAX_REASON_LENGTH) refuse('reason', `at most ${MAX_REASON_LENGTH} characters`, reason);
  switch (fields.do) {
    case 'revoke':
      return { do: 'revoke', resource, slot: text(fields, 'slot'), runId: text(fields, 'runId'), reason };
    case 'resize':
      return { do: 'resize', resource, capacity: wholeNumber(fields, 'capacity'), ifVersion, reason };
    case 'pause':
      return { do: 'pause', resource, ifVersion, reason };
    case 'resume':
      return { do: 'resume', resource, ifVersion };
    default:
      return refuse('do', 'revoke, resize, pause or resume', fields.do);
  }
}

/** Carries the action out, and looks at the resource at once. */
export async function act(hub: Hub, operator: ResourceOperator, action: Action): Promise<void> {
  switch (action.do) {
    case 'revoke':
      // Only the permit that the operator saw: another run may hold the slot by now.
      await operator.revoke(action.slot, { runId: action.runId, reason: action.reason || undefined });
      break;
    case 'resize':
      await operator.resize(action.capacity, { ifVersion: action.ifVersion, reason: action.reason || undefined });
      break;
    case 'pause':
      await operator.pause({ ifVersion: action.ifVersion, reason: action.reason || undefined });
      break;
    case 'resume':
      await operator.resume({ ifVersion: action.ifVersion });
      break;
  }
  hub.look(operator.resource);
}

function text(fields: Record<string, unknown>, name: string, mayBeEmpty = false): string {
  const value = fields[name];
  if (typeof value !== 'string' || (value === '' && !mayBeEmpty)) refuse(name, 'a string', value);
  return value.trim() === '' ? '' : value;
}

function wholeNumber(fields: Record<string, unknown>, name: string): number {
  const value = fields[name];
  if (typeof value !== 'number' || !Number.isSafeInteger(value) || value < 0) refuse(name, 'a whole number', value);
  return value;
}
