import {
  type Client,
  WorkflowClient,
  type WorkflowExecutionDescription,
  WorkflowNotFoundError,
} from '@temporalio/client';
import type { Payload, SerializationContext } from '@temporalio/common';
import { isOpen } from '../../shared/open';
import type { Server } from './server';

/**
 * A client for reading only. It reads a payload that it can't decode as `undefined`. Any client of the namespace may have written a memo,
 * with another codec or none, and one unreadable memo must not hide all others from the reader.
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

/** `undefined` when the Workflow has ended, or there is none. */
export async function describeOpen(
  server: Server,
  reader: WorkflowClient,
  workflowId: string,
): Promise<WorkflowExecutionDescription | undefined> {
  try {
    const description = await server.call(() => reader.getHandle(workflowId).describe());
    return isOpen(description) ? description : undefined;
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return undefined;
    throw error;
  }
}
