import { type Client, WorkflowClient } from '@temporalio/client';
import type { Payload, SerializationContext } from '@temporalio/common';

/**
 * A client for reading only. It reads a payload that it can't decode as `undefined`. Anybody may have written a memo, with
 * another codec or none, and one unreadable memo must not hide all others from an operator.
 */
export function lenientReader({ connection, workflow }: Client): WorkflowClient {
  const { payloadConverter, payloadCodecs, ...rest } = workflow.options.loadedDataConverter;
  const dataConverter: typeof workflow.options.loadedDataConverter = {
    ...rest,
    payloadConverter: {
      toPayload: (value, context) => payloadConverter.toPayload(value, context),
      fromPayload<T>(payload: Payload, context?: SerializationContext) {
        try {
          return payloadConverter.fromPayload<T>(payload, context);
        } catch {
          return undefined as T;
        }
      },
    },
    payloadCodecs: payloadCodecs.map((codec) => ({
      encode: (payloads, context) => codec.encode(payloads, context),
      async decode(payloads, context) {
        try {
          return await codec.decode(payloads, context);
        } catch {
          return payloads;
        }
      },
    })),
  };
  return new WorkflowClient({ ...workflow.options, connection, dataConverter });
}
