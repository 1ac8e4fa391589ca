import {
  defaultPayloadConverter,
  type HandlerUnfinishedPolicy,
  RawValue,
  rawValueTypeInfo,
  type TypeInfo,
} from '@temporalio/common';
import {
  ApplicationFailure,
  defineSignal,
  getExternalWorkflowHandle,
  type SignalDefinition,
  setHandler,
} from '@temporalio/workflow';
import * as adoption from '../shared/adoption-protocol';
import { DRAINED, type DrainedNotice, OVERRIDE, type OverrideInput } from '../shared/operator-protocol';
import * as pool from '../shared/pool-protocol';
import * as preemption from '../shared/preemption-protocol';
import * as protocol from '../shared/protocol';
import { isSignalTarget, type SignalTarget } from '../shared/wire-input';
import { shielded } from './shielded';

export const renewSignal = defineSignal<[protocol.RenewInput?]>(protocol.RENEW);
export const releaseSignal = defineSignal(protocol.RELEASE);
export const revokeSignal = defineSignal<[protocol.RevokeInput?]>(protocol.REVOKE);
export const adoptSignal = defineSignal<[adoption.AdoptInput]>(adoption.ADOPT);
export const watchSignal = defineSignal<[protocol.WatchInput]>(protocol.WATCH);
export const preemptSignal = defineSignal<[preemption.PreemptInput]>(preemption.PREEMPT);

export const enqueueSignal = defineSignal<[protocol.Ticket]>(protocol.ENQUEUE);
export const missedSignal = defineSignal<[protocol.MissedNotice]>(protocol.MISSED);
export const declinedSignal = defineSignal<[protocol.DeclinedNotice]>(protocol.DECLINED);
export const closingSignal = defineSignal<[protocol.ClosingNotice]>(protocol.CLOSING);
export const preemptibleSignal = defineSignal<[preemption.PreemptibleNotice]>(preemption.PREEMPTIBLE);
export const inheritSignal = defineSignal<[pool.InheritNotice]>(pool.INHERIT);
export const askPrioritySignal = defineSignal<[pool.PriorityQuestion]>(pool.ASK_PRIORITY);

/** Payload after payload, however many a stranger sends. */
const ALL_RAW = new Proxy<TypeInfo[]>([], { get: () => rawValueTypeInfo });

/**
 * A signal to a user's own Workflow. The SDK decodes a signal before its handler runs, and an error there fails the user's
 * Workflow Task for ever. So these pass the user's payload converter by: their JSON goes out as it is, and {@link hear} decodes it.
 */
function defineNotice<T>(name: string): SignalDefinition<[T]> {
  return defineSignal<[T]>(name, { typeInfo: { inputTypes: ALL_RAW } });
}

export const revokedSignal = defineNotice<protocol.RevokedNotice>(protocol.REVOKED);
export const preemptedSignal = defineNotice<preemption.PreemptedNotice>(preemption.PREEMPTED);
export const endedSignal = defineNotice<adoption.EndedNotice>(adoption.ENDED);
export const turnSignal = defineNotice<protocol.Turn>(protocol.TURN);

/** Handles a signal to a user's own Workflow. @param heard gets `undefined` in the place of what nobody here can decode */
export function hear<T>(
  notice: SignalDefinition<[T]>,
  heard: (payload: unknown) => void | Promise<void>,
  options?: { unfinishedPolicy: HandlerUnfinishedPolicy },
): void {
  setHandler(notice as SignalDefinition<[unknown]>, (raw) => heard(decoded(raw)), options);
}

function decoded(raw: unknown): unknown {
  try {
    return raw instanceof RawValue ? defaultPayloadConverter.fromPayload(raw.payload) : undefined;
  } catch {
    return undefined;
  }
}

export const overrideSignal = defineSignal<[OverrideInput]>(OVERRIDE);
export const drainedSignal = defineSignal<[DrainedNotice]>(DRAINED);

/** `refused`: the Workflow runs, but has taken its 10,000 signals. */
export type Delivery = 'delivered' | 'not-found' | 'refused';

/**
 * {@link deliver} to that run of a Workflow; where it has ended, to the Workflow's present run, because an operator may have reset it.
 * For messages that name their ticket or permit: a run that does not know it leaves the message out.
 */
export async function deliverAfterReset<Args extends unknown[]>(
  target: SignalTarget,
  signal: SignalDefinition<Args>,
  ...args: Args
): Promise<Delivery> {
  const delivery = await deliver(target, signal, ...args);
  if (delivery !== 'not-found' || target.runId === undefined) return delivery;
  return await deliver({ workflowId: target.workflowId }, signal, ...args);
}

/** Releases a permit. One that takes no more signals takes a cancel request, which is a release. */
export async function release(permit: Required<SignalTarget>): Promise<Delivery> {
  const delivery = await deliver(permit, releaseSignal);
  if (delivery !== 'refused') return delivery;
  const { workflowId, runId } = permit;
  return await delivered(() => getExternalWorkflowHandle(workflowId, runId).cancel());
}

/**
 * Signals another Workflow (without a run ID, its current run) and waits for the server's answer. A cancellation does not stop
 * it: each message of the protocol either arrives, or its sender knows that it did not. Await it before the Workflow ends: the
 * server drops a signal that is commanded in the Workflow Task that ends a Workflow.
 */
export async function deliver<Args extends unknown[]>(
  target: SignalTarget,
  signal: SignalDefinition<Args>,
  ...args: Args
): Promise<Delivery> {
  if (!isSignalTarget(target)) return 'not-found'; // the command would fail the task for ever, or end the worker
  const { workflowId, runId } = target;
  const sent = signal.typeInfo ? (args.map((arg) => new RawValue(arg)) as unknown as Args) : args;
  return await delivered(() => getExternalWorkflowHandle(workflowId, runId).signal(signal, ...sent));
}

async function delivered(command: () => Promise<void>): Promise<Delivery> {
  try {
    await shielded(command);
    return 'delivered';
  } catch (error) {
    if (!(error instanceof ApplicationFailure)) throw error;
    return error.type === 'ExternalWorkflowExecutionNotFound' ? 'not-found' : 'refused';
  }
}
