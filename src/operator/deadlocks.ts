import { addTo } from './add-to';
import type { Inspection, ResourceSlot } from './inspection';

/** One Workflow of a cycle of Workflows that wait for each other. */
export interface DeadlockStep {
  /** The Workflow that waits … */
  workflowId: string;
  runId: string;
  /** … for a permit of this resource … */
  waitsFor: string;
  /** … and the next Workflow of the cycle, which holds such a permit. */
  heldBy: string;
}

type Seen = Pick<Inspection, 'resource' | 'slots' | 'waiters'>;

interface Wait {
  resource: string;
  /** The Workflows that hold its permits. `undefined` stands for a client, and for a slot that is or comes free: the wait can end then. */
  holders: (string | undefined)[];
}

/**
 * Finds cycles of Workflows: each Workflow waits for a permit that only Workflows of its cycle hold. Such a cycle comes from permits
 * that callers nest by hand in different orders, or from a caller that waits for a permit of its own. A Workflow is stuck if all
 * holders of the resource it waits for are stuck, and it waits in no other line in which it could be served.
 *
 * It does not find a cycle through clients, since one process holds and waits for many callers. It may be wrong about a Workflow
 * that waits in one branch, and releases in another branch.
 */
export function findDeadlocks(resources: readonly Seen[]): DeadlockStep[][] {
  const waits = waitsByWorkflow(resources);
  for (let size = -1; size !== waits.size; ) {
    size = waits.size;
    for (const [who, lines] of waits) {
      const isServed = ({ holders }: Wait) => holders.some((holder) => holder === undefined || !waits.has(holder));
      if (lines.some(isServed)) waits.delete(who);
    }
  }
  const cycles: DeadlockStep[][] = [];
  const seen = new Set<string>();
  for (const start of waits.keys()) {
    const path: string[] = [];
    for (let who = start; !seen.has(who); who = next(waits, who)) {
      seen.add(who);
      path.push(who);
    }
    const last = path.at(-1);
    const from = last === undefined ? -1 : path.indexOf(next(waits, last));
    if (from >= 0) cycles.push(path.slice(from).map((who) => stepOf(waits, who)));
  }
  return cycles;
}

/** A Workflow that holds a permit, and whose child waits for a permit of the same resource. */
export interface WaitingChild {
  parent: string;
  child: string;
}

/**
 * The parents and children of a resource whose permits are all held by parents of its waiters: if each parent waits for its child, none goes
 * on. Only the code of a parent shows whether it waits.
 */
export function childrenBehindParents({ slots, waiters }: Seen): WaitingChild[] {
  const childOf = new Map(
    waiters.flatMap(({ parent, workflowId }) => (parent === undefined ? [] : [[parent, workflowId]])),
  );
  const inUse = slots.filter(({ state }) => state !== 'drained');
  const pairs = inUse.flatMap(({ state, permit }) => {
    const parent = state === 'held' ? permit?.holder.workflowId : undefined;
    const child = parent === undefined ? undefined : childOf.get(parent);
    return parent === undefined || child === undefined ? [] : [{ parent, child }];
  });
  return pairs.length === inUse.length ? pairs : [];
}

/** Of the permits that keep a cycle shut, the one that was taken last: its holder has the least to do again. */
export function lastTaken(steps: readonly DeadlockStep[], resources: readonly Seen[]): ResourceSlot | undefined {
  const shut = steps.flatMap(({ waitsFor, heldBy }) => {
    const slots = resources.find(({ resource }) => resource === waitsFor)?.slots ?? [];
    return slots.flatMap(({ slot, state, permit }) =>
      permit?.holder.workflowId === heldBy ? [{ resource: waitsFor, slot, state, permit }] : [],
    );
  });
  return shut.sort((a, b) => b.permit.since.getTime() - a.permit.since.getTime())[0];
}

function waitsByWorkflow(resources: readonly Seen[]): Map<string, Wait[]> {
  const waits = new Map<string, Wait[]>();
  for (const { resource, slots, waiters } of resources) {
    const holders = slots
      .filter(({ state }) => state !== 'drained')
      .map(({ state, permit }) => {
        return state === 'held' && permit ? nameOf(permit.holder.workflowId, permit.holder.runId) : undefined;
      });
    if (holders.length === 0) continue; // no permit is held: the waiters wait for an operator
    for (const { workflowId, runId, identity, turn } of waiters) {
      const who = nameOf(workflowId, runId);
      if (identity !== undefined || who === undefined) continue;
      const line = { resource, holders: turn === undefined ? holders : [undefined] };
      addTo(waits, who, line);
    }
  }
  return waits;
}

/** The next stuck Workflow: a holder of the resource that this Workflow waits for. */
function next(waits: ReadonlyMap<string, Wait[]>, who: string): string {
  return waits.get(who)?.[0]?.holders[0] ?? '';
}

function stepOf(waits: ReadonlyMap<string, Wait[]>, who: string): DeadlockStep {
  const [workflowId = '', runId = ''] = who.split(SEPARATOR);
  const [heldBy = ''] = next(waits, who).split(SEPARATOR);
  return { workflowId, runId, waitsFor: waits.get(who)?.[0]?.resource ?? '', heldBy };
}

const SEPARATOR = '\0';

function nameOf(workflowId: string | undefined, runId: string | undefined): string | undefined {
  return workflowId === undefined || runId === undefined ? undefined : workflowId + SEPARATOR + runId;
}
