import type { Payload, PayloadConverter } from '@temporalio/common';
import { maybeGetActivator } from '@temporalio/workflow/lib/global-attributes';
import { OUR_WORKFLOWS } from '../shared/protocol';

/**
 * What the SDK knows of the Workflow that runs here, if it is of one of these types: the sandbox loads each module again for each
 * Workflow, before the SDK decodes or handles anything.
 *
 * The library's only import of the SDK's internals. The SDK's public means are options of the code that makes the bundle
 * (`payloadConverterPath`, `interceptors.workflowModules`), but a worker should need nothing except to export our Workflows.
 * `test/unit/sdk-internals.test.ts` fails when a release of the SDK no longer has what is used here, in `inbox.ts` and in `takeover.ts`.
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

// Any client may send our Workflows anything; the user's own Workflows keep their converter.
// The SDK decodes a signal before its handler runs, and an error there fails the Workflow Task indefinitely: one client with another
// converter, or one piece of broken JSON, would block a permit or a queue until an operator terminates it. The same holds for arguments and
// the memo. A codec runs before that, outside the sandbox. If it throws, the task is retried until it succeeds: a key service may come back.
const activator = activatorOf(OUR_WORKFLOWS);
if (activator) activator.payloadConverter = new LenientPayloadConverter(activator.payloadConverter);
