import type { Client } from '@temporalio/client';
import { pause } from '../client/server/clock';
import { type Inspection, Operator } from '../operator';
import { placeOf } from './connection';
import { heldOf, overrideNote, unansweredTaskQueues } from './draw-resource';
import { say } from './terminal';
import { type Text, text } from './text';
import { disagreementLine } from './wording';

// What `run` says while it waits for a permit.

/** A resource of which the command needs a permit. */
export interface WantedResource {
  resource: string;
  capacity?: number;
  slots?: string[];
  perKey?: number;
  pace?: { every: number };
  key?: string;
  permits?: number;
}

/** A shorter wait needs no explanation. */
const SILENT_MS = 2_000;

/** A look costs a call for each slot, so a larger resource gets no look. */
const MOST_SLOTS = 100;

/** Says once what this process waits for, when it still waits after a while. It never fails: the wait itself counts more. */
export async function tellWhatItWaitsFor(
  resources: readonly WantedResource[],
  client: Client,
  over: AbortSignal,
): Promise<void> {
  await pause(SILENT_MS, over);
  if (over.aborted) return;
  const { identity } = client.options;
  const seen = await Promise.all(resources.map((wanted) => look(client, wanted)));
  // Of several resources, this names the resource in whose queue this process waits.
  const found = seen.find((one) => one?.waiters.some((waiter) => waiter.identity === identity)) ?? seen[0];
  const resource = found?.resource ?? resources.map((wanted) => wanted.resource).join('" and "');
  if (!over.aborted)
    say(text`waiting for a permit of "${resource}"${found ? details(found, identity) : ''} ${placeNote(client)}`);
}

/** Where it waits: a wrong server or namespace looks like any other wait. */
export function placeNote(client: Client): Text {
  const { address, namespace } = placeOf(client);
  return text`(namespace "${namespace}" at ${address})`;
}

function details(seen: Inspection, identity: string): unknown {
  const at = seen.waiters.findIndex((waiter) => waiter.identity === identity);
  const ahead = at < 0 ? seen.waiters.length : at;
  const override = seen.override ? text`, and the resource is ${overrideNote(seen.override)}` : '';
  const [unanswered] = unansweredTaskQueues(seen);
  const silent =
    unanswered === undefined
      ? ''
      : text`, and no worker answers on task queue "${unanswered}": perhaps the permit worker has stopped`;
  const line = seen.waiting === undefined || seen.queue === 'none' ? '' : text`, ${ahead} ahead`;
  const differing = seen.disagreement ? text`; ${disagreementLine(seen.disagreement)}` : '';
  const held = heldAround(seen) ? ', one of them by the enclosing run: run the command under its permit' : '';
  return text`: ${heldOf(seen)}${held}${line}${override}${differing}${silent}`;
}

/** Whether a `run` in which this one runs holds one of the permits: its command has the variable `PERMITS`. */
function heldAround({ slots }: Inspection): boolean {
  try {
    const around: { runId: unknown }[] = JSON.parse(process.env.PERMITS ?? '[]');
    return slots.some(({ permit }) => permit !== undefined && around.some(({ runId }) => runId === permit.runId));
  } catch {
    return false; // not what this program has written
  }
}

/** `undefined` when the resource has too many slots, or the server is slow or refuses. */
async function look(client: Client, { resource, capacity, slots }: WantedResource): Promise<Inspection | undefined> {
  if ((slots?.length ?? capacity ?? 0) > MOST_SLOTS) return undefined;
  return await new Operator(client, resource, { capacity, slots }).inspect({ recent: 0 }).catch(() => undefined);
}
