import type { Payload, PayloadConverter } from '@temporalio/common';
import { maybeGetActivator } from '@temporalio/workflow/lib/global-attributes';
import { OUR_WORKFLOWS } from '../shared/protocol';

/**
 * What the SDK knows of the Workflow that runs here, if it is of one of these types: the sandbox loads each module anew for each
 * Workflow, before the SDK decodes or handles anything.
 *
 * The library's only import of the SDK's internals. Its public means are options of whoever makes the bundle
 * (`payloadConverterPath`, `interceptors.workflowModules`), and a worker needs nothing but to export our Workflows.
 * `test/unit/sdk-internals.test.ts` fails when a release of the SDK no longer has what is used here and in `inbox.ts`.
 */
export function activatorOf(types: readonly string[]): ReturnType<typeof maybeGetActivator> {
  const activator = maybeGetActivator();
  return activator && types.includes(activator.info.workflowType) ? activator : undefined;
}

export { maybeGetActivator };

/** Reads a payload that it can't decode as `undefined`, which every reader here leaves out as malformed. */
class LenientPayloadConverter implements PayloadConverter {
  constructor(private readonly converter: PayloadConverter) {}

  toPayload(...args: Parameters<PayloadConverter['toPayload']>): Payload {
    return this.converter.toPayload(...args);
  }

  fromPayload<T>(...args: Parameters<PayloadConverter['fromPayload']>): T {
    try {
      return this.converter.fromPayload(...args) as T;
    } catch {
      return undefined as T;
    }
  }
}

// Anyone may send our Workflows anything; the user's own Workflows keep their converter.
// The SDK decodes a signal before its handler runs, and an error there fails the Workflow Task for ever: one client with another
// converter, or one line of broken JSON, would hold a permit or a queue until an operator terminates it. Arguments and memo count too.
// A codec runs before, outside the sandbox. If it throws, the task is retried until it does not: a key service may be back.
const activator = activatorOf(OUR_WORKFLOWS);
if (activator) activator.payloadConverter = new LenientPayloadConverter(activator.payloadConverter);
