import { randomUUID } from 'node:crypto';
import type { Client } from '@temporalio/client';
import type { Payload } from '@temporalio/common';
import { JUST_MOVED } from '../../src/shared/protocol';

/** A payload as bytes: what a client of another language, another codec, or nobody's could send. */
export interface RawPayload {
  encoding: string;
  data: string | Uint8Array;
}

/** JSON text, for what no JavaScript value can say. */
export const json = (data: string | Uint8Array): RawPayload => ({ encoding: 'json/plain', data });

/** Sent without any payload. */
export const NOTHING = Symbol('no payload');

/** An object that can't be made a number or a string. */
export const UNCONVERTIBLE = { valueOf: 1, toString: 1 };

export const nested = (depth: number) => '['.repeat(depth) + ']'.repeat(depth);

/** Payloads that no Workflow here can decode. */
export const UNDECODABLE: Record<string, RawPayload> = {
  'an encoding that nobody knows': { encoding: 'json/protobuf', data: '{}' },
  'encrypted, and no codec here': { encoding: 'binary/encrypted', data: 'secret' },
  'broken JSON': json('{"id": '),
  'no encoding': { encoding: '', data: '{}' },
};

/** Signals as anyone in the namespace can. @param values one payload for each */
export async function send(
  client: Client,
  workflowId: string,
  signalName: string,
  ...values: unknown[]
): Promise<void> {
  await client.workflowService.signalWorkflowExecution({
    namespace: client.options.namespace,
    workflowExecution: { workflowId },
    signalName,
    requestId: randomUUID(),
    input: values.includes(NOTHING) ? undefined : { payloads: values.map(payload) },
  });
}

/** Starts a Workflow as anyone in the namespace can. @returns its run ID */
export async function start(
  client: Client,
  workflowId: string,
  type: string,
  taskQueue: string,
  value: unknown,
  memo: Record<string, unknown> = {},
): Promise<string> {
  const response = await client.workflowService.startWorkflowExecution({
    namespace: client.options.namespace,
    workflowId,
    workflowType: { name: type },
    taskQueue: { name: taskQueue },
    requestId: randomUUID(),
    input: value === NOTHING ? undefined : { payloads: [payload(value)] },
    memo: { fields: Object.fromEntries(Object.entries(memo).map(([key, it]) => [key, payload(it)])) },
  });
  return response.runId;
}

/** What the server does to a task by itself, and heals: something came meanwhile, or more than it keeps for one task. */
const BY_THE_SERVER = [1 /* UNHANDLED_COMMAND */, 17 /* FORCE_CLOSE_COMMAND */];

/**
 * Why Workflow Tasks of the run, and of those that it was continued as, failed in the worker. A busy machine also moves Workflows to other
 * workers, or to the same one anew; that our code refuses such a task and takes it again is no failure.
 */
export async function taskFailures(client: Client, workflowId: string, runId?: string): Promise<string[]> {
  const failures: string[] = [];
  const { namespace } = client.options;
  for (let run = runId, page: Uint8Array | undefined; ; ) {
    const { history, nextPageToken } = await client.workflowService.getWorkflowExecutionHistory({
      namespace,
      execution: { workflowId, runId: run },
      maximumPageSize: 20, // one answer may have 4 MB
      nextPageToken: page,
    });
    const events = history?.events ?? [];
    for (const { workflowTaskFailedEventAttributes: failed } of events) {
      if (!failed || BY_THE_SERVER.includes(failed.cause ?? 0) || failed.failure?.message?.startsWith(JUST_MOVED))
        continue;
      failures.push(`${failed.cause} ${failed.failure?.message}`);
    }
    page = nextPageToken?.length ? nextPageToken : undefined;
    if (page) continue;
    run = events.at(-1)?.workflowExecutionContinuedAsNewEventAttributes?.newExecutionRunId ?? undefined;
    if (!run) return failures;
  }
}

function payload(value: unknown): Payload {
  const raw = isRaw(value) ? value : { encoding: 'json/plain', data: JSON.stringify(value) };
  const metadata: Record<string, Uint8Array> = raw.encoding ? { encoding: Buffer.from(raw.encoding) } : {};
  return { metadata, data: Buffer.from(raw.data) };
}

export function isRaw(value: unknown): value is RawPayload {
  return typeof value === 'object' && value !== null && 'encoding' in value && 'data' in value;
}
