import type { Client } from '@temporalio/client';
import type { Command } from 'commander';
import { shellWord, unpauseCommand, workerCommand } from '../client/server/commands';
import { mapConcurrently } from '../client/server/map-concurrently';
import {
  type Inspection,
  Operator,
  type Override,
  type SlotInspection,
  type Stranger,
  type WaiterInspection,
} from '../operator';
import { type DeadlockStep, findDeadlocks } from '../operator/deadlocks';
import { pausedWorkflow } from '../operator/paused';
import { isLineKnown, shownPurpose } from '../operator/reader';
import { endOf, inspectAllInUse, type SeenResource, withUnqueued } from '../operator/resources-in-use';
import { standstillOf, stuckCallers } from '../operator/stuck-workflows';
import { queueId } from '../shared/permit-id';
import { RELEASE } from '../shared/protocol';
import { type Output, withOutputFlags } from './arguments';
import { type ConnectionFlags, withClient, withConnectionFlags } from './connection';
import {
  heldOf,
  isQueueUnanswered,
  isUnanswered,
  leaseLeft,
  overrideNote,
  shownWaiter,
  silenceOf,
  unqueuedRemedy,
  whoHas,
} from './draw-resource';
import { EXIT } from './exit-codes';
import {
  deadlockFinding,
  drawFinding,
  type Finding,
  pausedFinding,
  pausedFindings,
  pollersBehind,
  resourceFindings,
  silentFindings,
  stuckFinding,
  stuckFindings,
  waitingChildren,
} from './resource-findings';
import { print, printCut, printJson, say } from './terminal';
import { dim, table, text, yellow } from './text';
import { sinceNow } from './wording';

interface WhyFlags extends ConnectionFlags {
  resource?: string;
  output: Output;
}

/** What a Workflow has to do with one resource. */
interface Part {
  resource: string;
  waits?: WaiterInspection;
  /** The waiters before it, if it waits. */
  ahead: WaiterInspection[];
  /** The slots that it waits for, with their holders. */
  slots: SlotInspection[];
  /** How many permits there may be, and what an operator has set. */
  capacity?: number;
  override?: Override;
  /** The slots that its callers take it to have, if they disagree. */
  disagreement?: Inspection['disagreement'];
  /** Workflows of another type under the IDs of its permits or of its queue. */
  strangers?: readonly Stranger[];
  /** What it holds itself. */
  holds: SlotInspection[];
  /** Of these slots, those that it has released: it waits until the permit takes the release. */
  released: string[];
}

/** The most waiters ahead, and the most slots, that it shows. */
const SHOWN = 10;

const HELP = `
Exit code ${EXIT.no}: the Workflow or client neither waits for a permit nor holds one.
Exit code ${EXIT.unavailable}: the answer is unknown, because a wait queue does not respond (no
worker runs it), because clients are waiting but no wait queue is running, or
because a resource can't be inspected.

Examples:
  temporal-semaphore why train-7
  temporal-semaphore why 1542@vm --resource gpu-pool
`;

export function addWhy(program: Command, done: (exitCode: number) => void): void {
  const why = program
    .command('why <workflowId>')
    .summary('show what a Workflow waits for')
    .description(
      'Shows which permits a Workflow waits for, its place in each queue, the waiters ahead of it, the holders, the permits that it holds itself, and any problems with the resources involved. For a client, give its identity instead of a Workflow ID. The command searches all resources in use, but may miss a resource that came into use in the last few seconds: name such a resource with --resource.',
    )
    .option('--resource <name>', 'search only this resource')
    .addHelpText('after', HELP)
    .action(async (workflowId: string, flags: WhyFlags) => {
      const { resources, ...seen } = await withClient(flags, (client) => lookFor(client, workflowId, flags));
      const { parts, deadlocks, findings, status } = seen;
      const isAnswered = parts.some(({ waits }) => waits) || !resources.some(isSilent);
      const { output } = flags;
      if (output !== 'text') printJson({ workflowId, resources: parts, deadlocks, findings }, output);
      else await show(workflowId, parts, { findings, isAnswered });
      done(parts.length > 0 && isAnswered ? 0 : sayNothingFound(workflowId, resources, status));
    });
  withConnectionFlags(withOutputFlags(why));
}

function isSilent(seen: SeenResource): boolean {
  return !isLineKnown(seen) || seen.unqueued !== undefined;
}

/** Reports that it found nothing, or that the answer is unknown. @returns the exit code */
function sayNothingFound(who: string, resources: SeenResource[], status: string | undefined): number {
  const untold = resources.filter(isSilent);
  if (resources.some(({ resource }) => resource === who)) {
    say(text`${who} is a resource: temporal-semaphore ls ${shellWord(who)} shows who waits for it.`);
  }
  if (untold.length === 0 || status !== undefined) {
    const ended = status === undefined ? '' : ` has ended (${status}): it`;
    say(text`${who}${ended} neither waits for a permit nor holds one.`);
    return EXIT.no;
  }
  const itsOwn = untold.filter(({ unqueued }) => unqueued?.some(({ workflowId }) => workflowId === who));
  for (const seen of itsOwn) {
    say(text`${who} waits for a permit of ${seen.resource}: ${silenceOf(seen)}. ${unqueuedRemedy(seen)}`);
  }
  const [first, ...more] = itsOwn.length > 0 ? [] : untold;
  if (first) {
    say(text`can't tell whether ${who} waits for a permit of ${first.resource}: ${silenceOf(first)}${remedyOf(first)}`);
  }
  if (more.length > 0) {
    const names = more.slice(0, SHOWN).map(({ resource }) => resource);
    const others = more.length > SHOWN ? ` and ${more.length - SHOWN} more` : '';
    say(
      text`… nor of ${names.join(', ')}${others}: temporal-semaphore doctor reports why. With --resource, why searches one resource only.`,
    );
  }
  return EXIT.unavailable;
}

/** What to do about a queue that gives no answer. */
function remedyOf(seen: SeenResource): string {
  if (seen.unqueued) return `. ${unqueuedRemedy(seen)}`;
  if (seen.queue === 'paused') return `. Unpause it: ${unpauseCommand(queueId(seen.resource))}`;
  return isQueueUnanswered(seen) && seen.taskQueue ? `. Start one: ${workerCommand(seen.taskQueue)}` : '';
}

async function resourcesFor(client: Client, { resource }: WhyFlags): Promise<SeenResource[]> {
  if (resource === undefined) return await inspectAllInUse(client, { keys: true });
  return await withUnqueued(client, [await new Operator(client, resource).inspect({ recent: 0 })]);
}

async function lookFor(client: Client, who: string, flags: WhyFlags) {
  const resources = await resourcesFor(client, flags);
  const touched = resources
    .map((seen) => ({ seen, part: partIn(seen, who) }))
    .filter(({ part }) => part.waits !== undefined || part.holds.length > 0);
  const parts = touched.map(({ part }) => part);
  await Promise.all(
    touched.map(async ({ seen, part }) => {
      part.released = await untakenReleases(client, seen, part.holds);
    }),
  );
  const deadlocks = findDeadlocks(resources).filter((steps) => concerns(steps, who, parts));
  const polled = await pollersBehind(
    client,
    touched.map(({ seen }) => seen),
  );
  // Of a resource for which it does not wait, only what it holds concerns it.
  const near = touched.map(({ seen, part: { waits, holds } }): SeenResource => {
    return waits ? seen : { ...seen, slots: holds, waiters: [], queue: 'none' };
  });
  const findings = [
    ...silentFindings(near, polled, resources),
    ...touched.flatMap(({ seen, part: { waits } }, index) =>
      waits
        ? resourceFindings(seen)
        : [...near.slice(index, index + 1).flatMap(pausedFindings), ...waitingChildren(seen)],
    ),
  ];
  return {
    resources,
    parts,
    status: parts.length === 0 ? await endOf(client, who) : undefined,
    deadlocks,
    findings: [
      ...(parts.length === 0 ? await ownFailure(client, who) : stuckFindings(await stuckCallers(client, near))),
      ...deadlocks.map((steps) => deadlockFinding(steps, resources)),
      ...findings,
    ],
  };
}

/** A holder that can't go on has lost its permit after its lease. */
async function ownFailure(client: Client, workflowId: string): Promise<Finding[]> {
  const standstill = await standstillOf(client, { workflowId });
  if (standstill === undefined) return [];
  return [
    standstill === 'paused' ? pausedFinding(pausedWorkflow(workflowId)) : stuckFinding(workflowId, standstill.fails),
  ];
}

/** Whether `who` is in the cycle, or waits for a resource for which a Workflow of the cycle waits too. */
function concerns(steps: readonly DeadlockStep[], who: string, parts: readonly Part[]): boolean {
  const lines = new Set(parts.filter(({ waits }) => waits).map(({ resource }) => resource));
  return steps.some(({ workflowId, waitsFor }) => workflowId === who || lines.has(waitsFor));
}

function partIn(
  { resource, waiters, slots, capacity, override, disagreement, strangers }: SeenResource,
  who: string,
): Part {
  const at = waiters.findIndex(({ workflowId, identity }) => workflowId === who || identity === who);
  const held = slots.filter(({ state }) => state !== 'free');
  return {
    resource,
    waits: waiters[at],
    ahead: waiters.slice(0, Math.max(0, at)),
    slots: at < 0 ? [] : held,
    capacity,
    override,
    disagreement,
    strangers,
    holds: held.filter(
      ({ state, permit }) =>
        state !== 'paced' && (permit?.holder.workflowId === who || permit?.holder.identity === who),
    ),
    released: [],
  };
}

/** A release is among the last events of a permit's history: renewals of its holder no longer come. */
const LAST_EVENTS = 10;

/** The slots of these permits whose release has reached the server, while the permit is paused or no worker answers for it. */
async function untakenReleases({ workflowService, options }: Client, seen: SeenResource, holds: SlotInspection[]) {
  const unanswered = holds.filter((slot) => slot.permit?.paused || isUnanswered(slot, seen)).slice(0, SHOWN);
  const released = await mapConcurrently(unanswered, async ({ slot, permit }) => {
    const { history } = await workflowService.getWorkflowExecutionHistoryReverse({
      namespace: options.namespace,
      execution: { workflowId: permit?.workflowId, runId: permit?.runId },
      maximumPageSize: LAST_EVENTS,
    });
    const signals = history?.events?.map((event) => event.workflowExecutionSignaledEventAttributes?.signalName);
    return signals?.includes(RELEASE) ? [slot] : [];
  });
  return released.flat();
}

/** @param isAnswered whether it is known in which queues `who` waits */
async function show(
  who: string,
  parts: Part[],
  { findings, isAnswered }: { findings: Finding[]; isAnswered: boolean },
): Promise<void> {
  for (const { resource, holds, released } of parts) {
    for (const { slot, permit } of holds.filter(({ slot }) => released.includes(slot))) {
      const until = permit?.paused ? 'until the permit is unpaused' : 'for a permit worker to take the release';
      print(text`${who} has released slot ${slot} of ${resource}, and waits ${until}.`);
    }
  }
  for (const part of parts) {
    const { resource, waits, ahead, slots, holds, capacity, override, disagreement } = part;
    for (const { slot, permit } of holds) {
      print(text`${who} holds slot ${slot} of ${resource}, for ${permit ? sinceNow(permit.since) : '?'}.`);
      const { preemptedUntil } = permit ?? {};
      if (preemptedUntil) {
        print(
          text`A waiter of higher priority has asked for this permit, which gives way by ${preemptedUntil.toISOString()} at the latest.`,
        );
      }
    }
    if (!waits) continue;
    const turn = waits.turn === undefined ? '' : text` It has its turn: slot ${waits.turn}.`;
    const place = ahead.length === 0 ? 'next in line' : `number ${waits.place} in the queue`;
    print(
      text`${who} waits for a permit of ${resource}, ${place}, with priority ${waits.priorityKey}, for ${sinceNow(waits.since)}.${turn}`,
    );
    const held = slots.filter(({ state }) => state === 'held').length;
    print(
      text`${resource}: ${heldOf({ capacity, held, disagreement })}${override ? text` [${overrideNote(override)}]` : ''}.`,
    );
    print();
    await printCut(
      table(['ahead', 'priority', 'key', 'for'], some(ahead.map(aheadRow)), ['left', 'right', 'left', 'right']),
    );
    print();
    await printCut(
      table(
        ['slot', 'held by', 'for', 'renewed', 'lease left', 'purpose'],
        some(slots.map((slot) => slotRow(slot, part))),
        ['right', 'left', 'right', 'right', 'right', 'left'],
      ),
    );
  }
  if (isAnswered && parts.length > 0 && !parts.some(({ waits }) => waits)) print(text`${who} waits for no permit.`);
  for (const finding of findings) print(text`\n${drawFinding(finding)}`);
}

function some(rows: unknown[][]): unknown[][] {
  if (rows.length === 0) return [[dim('none')]];
  return rows.length <= SHOWN ? rows : [...rows.slice(0, SHOWN), [dim(`… and ${rows.length - SHOWN} more`)]];
}

function aheadRow(waiter: WaiterInspection): unknown[] {
  const { priorityKey, fairnessKey, since } = waiter;
  return [shownWaiter(waiter), priorityKey, fairnessKey, sinceNow(since)];
}

function slotRow(inspection: SlotInspection, part: Part): unknown[] {
  const { slot, permit } = inspection;
  const by = whoHas(inspection, part);
  return [
    slot,
    permit?.preemptedUntil ? text`${by}, which ${yellow('gives way')}` : by,
    permit ? sinceNow(permit.since) : '',
    inspection.state === 'held' && permit?.renewedAt ? `${sinceNow(permit.renewedAt)} ago` : '',
    leaseLeft(inspection),
    permit && shownPurpose(permit),
  ];
}
