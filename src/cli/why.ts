import type { Client } from '@temporalio/client';
import type { Command } from 'commander';
import type { SlotInspection, WaiterInspection } from '../client/inspection';
import { withClient } from './client';
import { type ConnectionFlags, withConnectionFlags } from './connection';
import { paint, table } from './paint';
import { type PoolFlags, PoolView, type SeenPool } from './pool';
import { waiterName } from './pool-view';
import { holderName, plain, print, printJson, sinceNow } from './render';
import { poolsInUse } from './resources';

interface WhyFlags extends ConnectionFlags {
  resource?: string;
  json?: true;
}

/** What a Workflow has to do with one pool. */
interface Part {
  resource: string;
  waits?: WaiterInspection;
  /** Who is served before it, if it waits. */
  ahead: WaiterInspection[];
  /** Who holds what it waits for. */
  slots: SlotInspection[];
  /** What it holds itself. */
  holds: SlotInspection[];
}

/** Of those ahead and of the slots, a person wants to see a few. */
const SHOWN = 10;

export function addWhy(program: Command, done: (exitCode: number) => void): void {
  const why = program
    .command('why <workflowId>')
    .summary('say what a Workflow waits for')
    .description(
      "Says what a Workflow (or a client, by its identity) waits for, its place in line, who is ahead, who holds, and what it holds itself. It looks through all pools in use; one that came into use in the last seconds may be missing, unless it's named.",
    )
    .option('--resource <name>', 'look at this pool only')
    .option('--json', 'one JSON text on standard output')
    .action(async (workflowId: string, flags: WhyFlags) => {
      const parts = await withClient(flags, (client) => partsOf(client, workflowId, flags));
      if (flags.json) printJson({ workflowId, pools: parts });
      else show(workflowId, parts);
      done(0);
    });
  withConnectionFlags(why);
}

async function partsOf(client: Client, who: string, { resource, ...rest }: WhyFlags): Promise<Part[]> {
  // Pools are only looked at here: on which task queue they run does not matter.
  const flags: PoolFlags = { ...rest, taskQueue: 'unused' };
  const pools =
    resource === undefined ? await poolsInUse(client, flags) : [await new PoolView(client, resource, flags).look(0)];
  return pools.map((pool) => partIn(pool, who)).filter((part) => part.waits !== undefined || part.holds.length > 0);
}

function partIn({ resource, waiters, slots }: SeenPool, who: string): Part {
  const at = waiters.findIndex(({ workflowId, identity }) => workflowId === who || identity === who);
  const held = slots.filter(({ state }) => state !== 'free');
  return {
    resource,
    waits: waiters[at],
    ahead: waiters.slice(0, Math.max(0, at)),
    slots: at < 0 ? [] : held,
    holds: held.filter(({ permit }) => permit?.holder.workflowId === who || permit?.holder.identity === who),
  };
}

function show(who: string, parts: Part[]): void {
  if (parts.length === 0) print(`${plain(who)} neither waits for a permit nor holds one.`);
  for (const { resource, waits, ahead, slots, holds } of parts) {
    for (const { slot, permit } of holds) {
      print(
        `${plain(who)} holds slot ${plain(slot)} of ${plain(resource)}, for ${permit ? sinceNow(permit.since) : '?'}.`,
      );
    }
    if (!waits) continue;
    const turn = waits.turn === undefined ? '' : ` It has its turn: slot ${plain(waits.turn)}.`;
    const place = ahead.length === 0 ? 'next in line' : `number ${waits.place} in line`;
    print(`${plain(who)} waits for a permit of ${plain(resource)}, ${place}, for ${sinceNow(waits.since)}.${turn}`);
    print();
    print(table(['ahead', 'priority', 'key', 'for'], some(ahead.map(aheadRow)), ['left', 'right', 'left', 'right']));
    print();
    print(table(['slot', 'held by', 'for', 'purpose'], some(slots.map(slotRow)), ['right', 'left', 'right', 'left']));
  }
}

function some(rows: string[][]): string[][] {
  if (rows.length === 0) return [[paint.dim('nobody')]];
  return rows.length <= SHOWN ? rows : [...rows.slice(0, SHOWN), [paint.dim(`… and ${rows.length - SHOWN} more`)]];
}

function aheadRow(waiter: WaiterInspection): string[] {
  const { priorityKey, fairnessKey = '', since } = waiter;
  return [waiterName(waiter), String(priorityKey), plain(fairnessKey), sinceNow(since)];
}

function slotRow({ slot, state, permit }: SlotInspection): string[] {
  const by = state === 'drained' ? paint.yellow('nobody: drained') : holderName(permit?.holder ?? {});
  return [plain(slot), by, permit ? sinceNow(permit.since) : '', plain(permit?.purpose ?? '')];
}
