import type { SignalDefinition } from '@temporalio/workflow';
import { PERMIT_WORKFLOWS, QUEUE_WORKFLOW } from '../shared/protocol';
import { activatorOf } from './lenient-converter';
import { noteActivation } from './takeover';

/** The Workflow types that take their signals here: any client may signal them as often as the server allows. Users' Workflows use the SDK's handlers. */
const OURS: readonly string[] = [...PERMIT_WORKFLOWS, QUEUE_WORKFLOW];

const handlers = new Map<string, (payload: unknown) => void>();
/** The signals that came before {@link takeEarlySignals}; `undefined` after it. */
let early: { name: string; payload: unknown }[] | undefined = [];
let taken = 0;

/** How many signals this run has received, of any name. */
export function signalsTaken(): number {
  return taken;
}

/**
 * Handles a signal, with its first argument, after {@link takeEarlySignals}. The handler must not throw.
 *
 * The SDK makes about ten promises for each signal, and each costs a stack trace: 5,000 signals in one Workflow Task take longer than a
 * task may, and have ended the worker's process. Here each costs what its handler does.
 */
export function onSignal<Arg>(signal: SignalDefinition<[Arg?]>, handler: (payload: Arg) => void): void {
  handlers.set(signal.name, handler as (payload: unknown) => void);
}

/** Handles the signals that came before, in their order. A Workflow calls this once, when it has registered all its handlers. */
export function takeEarlySignals(): void {
  const waiting = early ?? [];
  early = undefined;
  for (const { name, payload } of waiting) handlers.get(name)?.(payload);
}

const activator = activatorOf(OURS);
if (activator) {
  const { namespace, workflowId } = activator.info;
  const context = { type: 'workflow', namespace, workflowId } as const;
  activator.interceptors.internals.push({
    activate(input, next) {
      const { activation } = input;
      noteActivation(activation, activator.info);
      const jobs = (activation.jobs ?? []).filter(({ signalWorkflow }) => {
        if (!signalWorkflow) return true;
        taken++;
        const { signalName, input: payloads } = signalWorkflow;
        const [first] = payloads ?? [];
        const payload = first && activator.payloadConverter.fromPayload(first, context);
        const name = signalName ?? '';
        if (early) early.push({ name, payload });
        else handlers.get(name)?.(payload);
        return false;
      });
      next({ ...input, activation: { ...activation, jobs } });
    },
  });
}
