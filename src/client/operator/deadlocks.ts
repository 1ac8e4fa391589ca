import type { Inspection } from './inspection';

/** One of those that wait for each other. */
export interface DeadlockStep {
  /** The Workflow that waits … */
  workflowId: string;
  runId: string;
  /** … for a permit of this resource … */
  waitsFor: string;
  /** … and the next of them, which holds one. */
  heldBy: string;
}

type Pool = Pick<Inspection, 'resource' | 'slots' | 'waiters'>;

interface Wait {
  resource: string;
  /** The Workflows that hold its permits. `undefined` stands for a client, and for a slot that is or comes free: then the wait can end. */
  holders: (string | undefined)[];
}

/**
 * The cycles of Workflows of which each waits for a permit that only the others hold: by hand-made nesting in different orders,
 * or because one waits for what it holds itself. A Workflow that waits in a resource's line is stuck if all that hold its
 * permits are stuck, and it waits in no other line in which it could be served.
 *
 * Not found: a cycle through clients, for one process holds and waits for many callers. Not sure: a Workflow may wait in one
 * branch, and give back in another.
 */
export function findDeadlocks(pools: readonly Pool[]): DeadlockStep[][] {
  const waits = waitsByWorkflow(pools);
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

function waitsByWorkflow(pools: readonly Pool[]): Map<string, Wait[]> {
  const waits = new Map<string, Wait[]>();
  for (const { resource, slots, waiters } of pools) {
    const holders = slots
      .filter(({ state }) => state !== 'drained')
      .map(({ state, permit }) => {
        return state === 'held' && permit ? nameOf(permit.holder.workflowId, permit.holder.runId) : undefined;
      });
    if (holders.length === 0) continue; // nobody holds: they wait for an operator
    for (const { workflowId, runId, identity, turn } of waiters) {
      const who = nameOf(workflowId, runId);
      if (identity !== undefined || who === undefined) continue;
      const line = { resource, holders: turn === undefined ? holders : [undefined] };
      waits.set(who, [...(waits.get(who) ?? []), line]);
    }
  }
  return waits;
}

/** The next stuck Workflow, of those that hold what this one waits for. */
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
