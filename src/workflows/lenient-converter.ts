import type { ConverterHint, Payload, PayloadConverter, SerializationContext } from '@temporalio/common';
import { maybeGetActivator } from '@temporalio/workflow/lib/global-attributes';
import { PACED_PERMIT_WORKFLOW } from '../shared/pace-protocol';
import { PERMIT_WORKFLOW, QUEUE_WORKFLOW, WAITER_WORKFLOW } from '../shared/protocol';

/** The Workflow types of the protocol. Anyone may send them anything; the user's own Workflows keep their converter. */
const OURS: readonly string[] = [PERMIT_WORKFLOW, PACED_PERMIT_WORKFLOW, QUEUE_WORKFLOW, WAITER_WORKFLOW];

/**
 * Reads a payload that nobody here can decode as `undefined`, which every handler leaves out as malformed. The SDK decodes
 * a signal before its handler runs, and an error there fails the Workflow Task for ever: one client with another
 * converter, or one line of broken JSON, would hold a permit or a queue until an operator terminates it.
 *
 * A codec runs before, outside the sandbox. If it throws, the task is retried until it does not: a key service may be back.
 */
class LenientPayloadConverter implements PayloadConverter {
  constructor(private readonly converter: PayloadConverter) {}

  toPayload<T>(value: T, context?: SerializationContext, hint?: ConverterHint<T>): Payload {
    return this.converter.toPayload(value, context, hint);
  }

  fromPayload<T>(payload: Payload, context?: SerializationContext, hint?: ConverterHint<T>): T {
    try {
      return this.converter.fromPayload(payload, context, hint);
    } catch {
      return undefined as T;
    }
  }
}

// The sandbox loads this module anew for each Workflow, before the SDK decodes anything: its arguments and memo count too.
const activator = maybeGetActivator();
if (activator && OURS.includes(activator.info.workflowType)) {
  activator.payloadConverter = new LenientPayloadConverter(activator.payloadConverter);
}
