import { defaultPayloadConverter, type Payload } from '@temporalio/common';
import {
  CancellationScope,
  getExternalWorkflowHandle,
  type Next,
  proxySinks,
  type SignalWorkflowInput,
  type Sinks,
  sleep,
  type WorkflowExecuteInput,
  type WorkflowInboundCallsInterceptor,
  type WorkflowInterceptorsFactory,
  type WorkflowOutboundCallsInterceptor,
  workflowInfo,
} from '@temporalio/workflow';
import { Semaphore } from '../../../../scripts/support/own-queue-semaphore';
import { TURN } from '../../../../src/shared/protocol';
import { limitWorkflows } from '../../../../src/workflow';
import { acquireStep, onAcquireStep } from './acquire-steps';
import { CHAOS_HEADER, FLAKY, NOWHERE, type SignalFault, signalFault } from './signal-faults';
import type { HolderInput } from './workflows';

export interface TurnSinks extends Sinks {
  chaos: { turn(): void };
}

const { chaos } = proxySinks<TurnSinks>();

const HOLDERS: readonly string[] = ['chaosHolder', 'chaosLimited'];

/** Signals that this module sends itself are left alone. */
let isDouble = false;

const outbound: WorkflowOutboundCallsInterceptor = {
  startTimer: async (input, next) => await acquireStep(() => next(input)),
  startChildWorkflowExecution: async (input, next) => await acquireStep(() => next(input)),
  async signalWorkflow(input, next) {
    return await acquireStep(async () => {
      if (isDouble || !isSpoilt(input)) return await next(input);
      const fault = signalFault(Math.random());
      if (fault === undefined) return await next(input);
      const { signalName, args, target } = input;
      const headers = { ...input.headers, [CHAOS_HEADER]: marked(fault) };
      if (fault === 'signal-dropped') {
        const lost = {
          ...input,
          headers,
          target: { type: 'external' as const, workflowExecution: { workflowId: NOWHERE } },
        };
        return await next(lost).catch(() => undefined);
      }
      // A turn is never delayed here: its moment tells the order in which the queue decided.
      if (fault === 'signal-delayed' && signalName !== TURN) {
        await sleep(Math.random() * 800);
        return await next({ ...input, headers });
      }
      if (target.type === 'external') {
        const { workflowId = '', runId } = target.workflowExecution;
        isDouble = true;
        const again = getExternalWorkflowHandle(workflowId ?? '', runId ?? undefined).signal(signalName, ...args);
        isDouble = false;
        again.catch(() => undefined);
      }
      return await next({ ...input, headers });
    });
  },
};

/** What comes from a flaky queue or permit, and what a holder sends to one: a set's other resources hear all that is sent. */
function isSpoilt({ target }: SignalWorkflowInput): boolean {
  const { workflowId, workflowType } = workflowInfo();
  if (!HOLDERS.includes(workflowType)) return workflowId.includes(FLAKY);
  const to = target.type === 'external' ? target.workflowExecution.workflowId : target.childWorkflowId;
  return to?.includes(FLAKY) ?? false;
}

function marked(fault: SignalFault): Payload {
  return defaultPayloadConverter.toPayload(fault) as Payload;
}

/** The limit of each `chaosLimited` is that of its input. */
async function limited(input: WorkflowExecuteInput, next: Next<WorkflowInboundCallsInterceptor, 'execute'>) {
  if (workflowInfo().workflowType !== 'chaosLimited') return await next(input);
  const [{ resource, semaphore, options, cancelAt }] = input.args as [HolderInput];
  const { key, ...acquire } = options;
  const limit = { semaphore: new Semaphore(resource, semaphore), ...acquire };
  const { inbound } = limitWorkflows({ chaosLimited: key === undefined ? limit : { ...limit, key: () => key } })();
  const scope = CancellationScope.current();
  onAcquireStep(cancelAt && { ...cancelAt, cancel: () => scope.cancel() });
  return await inbound?.[0]?.execute?.(input, async (rest) => {
    onAcquireStep(undefined);
    return await next(rest);
  });
}

/** What chaos does inside Workflows: it counts the commands of an acquire, tells of turns, and spoils the signals of flaky pools. */
export const interceptors: WorkflowInterceptorsFactory = () => ({
  inbound: [
    {
      execute: limited,
      async handleSignal(input, next) {
        const { workflowType, unsafe } = workflowInfo();
        if (input.signalName === TURN && HOLDERS.includes(workflowType) && !unsafe.isReplaying) chaos.turn();
        return await next(input);
      },
    },
  ],
  outbound: [outbound],
});
