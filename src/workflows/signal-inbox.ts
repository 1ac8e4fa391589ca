import type { SignalDefinition } from '@temporalio/workflow';
import { PACED_PERMIT_WORKFLOW, PERMIT_WORKFLOW, QUEUE_WORKFLOW } from '../shared/protocol';
import { activatorOf } from './lenient-converter';

/** The Workflow types of the protocol that anybody may signal as often as the server allows. Users' Workflows keep the SDK's way. */
const OURS: readonly string[] = [PERMIT_WORKFLOW, PACED_PERMIT_WORKFLOW, QUEUE_WORKFLOW];

const handlers = new Map<string, (payload: unknown) => void>();
/** What came before {@link takeEarlySignals}; `undefined` after it. */
let early: { name: string; payload: unknown }[] | undefined = [];
let taken = 0;

/** How many signals this run has got, of any name. */
export function signalsTaken(): number {
  return taken;
}

/**
 * Hears a signal, with its first argument, after {@link takeEarlySignals}. The handler must not throw.
 *
 * The SDK makes about ten promises for each signal, and each costs a stack trace: 5,000 signals in one Workflow Task take longer than a
 * task may, and have ended the worker's process. Here each costs what its handler does.
 */
export function onSignal<Arg>(signal: SignalDefinition<[Arg?]>, handler: (payload: Arg) => void): void {
  handlers.set(signal.name, handler as (payload: unknown) => void);
}

/** Takes what came before the first Workflow Task, in the order in which it came. A Workflow calls it once, when it has said all that it hears. */
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
