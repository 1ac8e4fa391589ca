import { refuse } from './check';
import { byteLength, PRINTABLE_ASCII } from './utf8';

/**
 * The Workflow IDs of the protocol. A Workflow ID is the claim: the server never runs two Workflows with one ID, so starting
 * `permit:<resource>:<slot>` takes that slot. Only this module writes these prefixes.
 */
const PERMIT_PREFIX = 'permit:';
const QUEUE_PREFIX = 'permit-queue:';
const WAITER_PREFIX = 'permit-waiter:';

/** The server takes 1,000 bytes, but its SQL schemas store 255. */
export const MAX_ID_BYTES = 255;

/** The longest resource name, in bytes, for which every ID of the protocol fits: a waiter's ends in `:<uuid>`. */
export const MAX_RESOURCE_BYTES = MAX_ID_BYTES - WAITER_PREFIX.length - ':'.length - 36;

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
const UNPRINTABLE = /[\p{C}\p{Zl}\p{Zp}]/u;

/** A permit's place: one slot of one resource. */
export interface PermitAddress {
  readonly resource: string;
  readonly slot: string;
}

/** The ID of the Workflow that is the permit of `slot`. */
export function permitId({ resource, slot }: PermitAddress): string {
  return `${PERMIT_PREFIX}${resource}:${slot}`;
}

/** The ID of the Workflow that keeps the wait queue of `resource`. */
export function queueId(resource: string): string {
  return QUEUE_PREFIX + resource;
}

/** The resource whose wait queue has this ID. */
export function resourceOfQueue(workflowId: string): string {
  return workflowId.slice(QUEUE_PREFIX.length);
}

/** The ID of the Workflow that waits on behalf of a client. `uuid` makes it unique. */
export function waiterId(resource: string, uuid: string): string {
  return `${WAITER_PREFIX}${resource}:${uuid}`;
}

/** The resource for which the Workflow with this ID waits. */
export function resourceOfWaiter(workflowId: string): string {
  return workflowId.slice(WAITER_PREFIX.length, workflowId.lastIndexOf(':'));
}

/** Reads a permit's Workflow ID; `undefined` for any other ID. A resource may contain `:`, a slot may not. */
export function parsePermitId(workflowId: string): PermitAddress | undefined {
  if (!workflowId.startsWith(PERMIT_PREFIX)) return undefined;
  const separator = workflowId.lastIndexOf(':');
  const resource = workflowId.slice(PERMIT_PREFIX.length, separator);
  const slot = workflowId.slice(separator + 1);
  return resource && slot ? { resource, slot } : undefined;
}

/** Checks a resource name. @throws InvalidOptionsError when the protocol can't carry it */
export function checkResource(resource: unknown): asserts resource is string {
  const name = checkName('resource', resource);
  if (byteLength(name) > MAX_RESOURCE_BYTES) {
    refuse('resource', `at most ${MAX_RESOURCE_BYTES} bytes of UTF-8`, name);
  }
}

/** Whether the protocol can carry this resource name. */
export function isResource(resource: unknown): resource is string {
  try {
    checkResource(resource);
    return true;
  } catch {
    return false;
  }
}

/** Checks a slot name of a checked `resource`. @throws InvalidOptionsError when the protocol can't carry it */
export function checkSlot(resource: string, slot: unknown): asserts slot is string {
  const name = checkName('slot name', slot);
  if (name.includes(':')) refuse('slot name', 'a name without ":"', name);
  if (byteLength(permitId({ resource, slot: name })) > MAX_ID_BYTES) {
    refuse('slot name', `a Workflow ID "permit:<resource>:<slot>" of at most ${MAX_ID_BYTES} bytes`, name);
  }
}

/** The server fails the task of a Workflow that signals a run whose ID is no UUID. */
export function isRunId(value: unknown): value is string {
  return typeof value === 'string' && UUID.test(value);
}

/** Checks a name. Two names that look the same must not be two resources, because each would have all the permits. */
function checkName(what: string, name: unknown): string {
  if (typeof name !== 'string' || name === '') refuse(what, 'a non-empty string', name);
  if (PRINTABLE_ASCII.test(name) && name.trim() === name) return name;
  if (UNPRINTABLE.test(name)) refuse(what, 'printable characters only', name);
  if (name.trim() !== name) refuse(what, 'a name without white space at either end', name);
  if (name.normalize('NFC') !== name) {
    refuse(what, `a name in Unicode's form NFC, ${JSON.stringify(name.normalize('NFC'))}`, escaped(name));
  }
  return name;
}

/** Writes `\uXXXX` for all but ASCII, since two forms of a name look the same. */
function escaped(name: string): string {
  return name.replaceAll(/[^\x20-\x7e]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);
}
