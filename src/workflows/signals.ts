import { defaultPayloadConverter, type HandlerUnfinishedPolicy, RawValue, rawValueTypeInfo } from '@temporalio/common';
import {
  ApplicationFailure,
  CancellationScope,
  defineSignal,
  getExternalWorkflowHandle,
  type SignalDefinition,
  setHandler,
} from '@temporalio/workflow';
import * as protocol from '../shared/protocol';
import { isSignalTarget, type SignalTarget } from '../shared/wire-input';
import { handOverRaw } from './raw-signals';

export const renewSignal = defineSignal<[protocol.RenewInput?]>(protocol.RENEW);
export const releaseSignal = defineSignal(protocol.RELEASE);
export const revokeSignal = defineSignal<[protocol.RevokeInput?]>(protocol.REVOKE);
export const adoptSignal = defineSignal<[protocol.AdoptInput]>(protocol.ADOPT);
export const watchSignal = defineSignal<[protocol.WatchInput]>(protocol.WATCH);
export const preemptSignal = defineSignal<[protocol.PreemptInput]>(protocol.PREEMPT);

export const enqueueSignal = defineSignal<[protocol.Ticket]>(protocol.ENQUEUE);
export const missedSignal = defineSignal<[protocol.MissedNotice]>(protocol.MISSED);
export const declinedSignal = defineSignal<[protocol.DeclinedNotice]>(protocol.DECLINED);
export const closingSignal = defineSignal<[protocol.ClosingNotice]>(protocol.CLOSING);
export const preemptibleSignal = defineSignal<[protocol.PreemptibleNotice]>(protocol.PREEMPTIBLE);
export const inheritSignal = defineSignal<[protocol.InheritNotice]>(protocol.INHERIT);
export const askPrioritySignal = defineSignal<[protocol.PriorityQuestion]>(protocol.ASK_PRIORITY);

/** Returns the raw type for each payload, however many payloads a foreign client sends. */
const ALL_RAW = new Proxy<(typeof rawValueTypeInfo)[]>([], { get: () => rawValueTypeInfo });

/**
 * A signal to a user's own Workflow. The SDK decodes a signal before its handler runs, and an error there fails the user's
 * Workflow Task indefinitely. So these signals bypass the user's payload converter: their JSON goes out unchanged, and {@link hear} decodes it.
 */
function defineNotice<T>(name: string): SignalDefinition<[T]> {
  return { ...defineSignal<[T]>(name), typeInfo: { inputTypes: ALL_RAW } };
}

export const revokedSignal = defineNotice<protocol.RevokedNotice>(protocol.REVOKED);
export const preemptedSignal = defineNotice<protocol.PreemptedNotice>(protocol.PREEMPTED);
export const endedSignal = defineNotice<protocol.EndedNotice>(protocol.ENDED);
export const turnSignal = defineNotice<protocol.Turn>(protocol.TURN);

if (!rawValueTypeInfo) handOverRaw([protocol.REVOKED, protocol.PREEMPTED, protocol.ENDED, protocol.TURN]); // SDK before 1.24

/** Handles a signal to a user's own Workflow. @param heard gets `undefined` instead of a payload that can't be decoded here */
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

export const overrideSignal = defineSignal<[protocol.OverrideInput]>(protocol.OVERRIDE);
export const drainedSignal = defineSignal<[protocol.DrainedNotice]>(protocol.DRAINED);

/** `refused`: the Workflow runs, but has taken its 10,000 signals. */
export type Delivery = 'delivered' | 'not-found' | 'refused';

/**
 * {@link deliver} to that run of a Workflow; if the run has ended, to the Workflow's present run, because an operator may have reset it.
 * For messages that name their ticket or permit: a run that does not know that ticket or permit ignores the message.
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

/** Releases a permit. A permit that takes no more signals takes a cancel request, which is a release. */
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
  if (!isSignalTarget(target)) return 'not-found'; // the command would fail the task indefinitely, or end the worker
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

let shield: CancellationScope | undefined;

/**
 * Runs `act` shielded from cancellation, as `CancellationScope.nonCancellable` does. One scope serves the whole Workflow: a new scope would
 * make five more promises, and for each promise the SDK keeps a stack trace, which takes longer than all else here.
 */
export function shielded<T>(act: () => Promise<T>): Promise<T> {
  shield ??= new CancellationScope({ cancellable: false });
  return shield.run(act);
}

/**
 * Has at most one message under way, and at most one more to follow it, however often it is called. Any client may ask a permit
 * thousands of times, and the server takes 2,000 messages at once: with more, the task fails indefinitely.
 */
export function oneAtATime(send: () => Promise<unknown>): () => void {
  let isUnderWay = false;
  let isDue = false;
  const sendWhileDue = async () => {
    isUnderWay = true;
    for (; isDue; await send()) isDue = false;
    isUnderWay = false;
  };
  return () => {
    isDue = true;
    if (!isUnderWay) void sendWhileDue();
  };
}
