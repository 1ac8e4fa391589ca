import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Client } from '@temporalio/client';
import { accumulatorResource, keyResource } from '@/shared/key-names';
import { withConnection } from '../../../scripts/support/connection';
import { canPauseWorkflows } from '../../../scripts/support/workflow-pause';

import { KEYS, type PoolSetup } from './actors/input';
import { buildActors, lastWords } from './build';
import { judge } from './checker';
import { DEPLOY_VERSION, NO_VERSIONS } from './deployments';
import { actorClock, NO_FAKETIME } from './faketime';
import { FAULTS, type Fault } from './faults';
import { readHistories, runningPermits } from './histories';
import { torment } from './nemesis';
import { restoreCapacity } from './operators';
import type { ChaosOptions } from './options';
import type { ChaosRecord } from './record';
import { type ChaosReport, isClean } from './report';
import type { ChaosServer } from './server';
import { STRANGERS } from './strangers';
import { NO_PAUSE, PAUSE_WORKFLOW } from './workflow-pauses';
import { World } from './world';

/** How often a waiter asks whether the queue lives. 20 to 25 times as long once it has answered: so X of L2 is above that. */
const RECHECK_AFTER_MS = 1_000;

/** Of one pool: longer than most of its holders work. */
const PACE_MS = 1_500;

/** A run in which something took so long is worth a look: what it left is kept. */
const SLOW_MS = 5 * 60_000;

/** When all are served, no permit is left after this, of which the longest lease is 6 s. */
const LEFT_WITHIN_MS = 60_000;

const ACTORS = ['permits-1', 'permits-2', 'application', 'clients-1', 'clients-2', 'commands'];

/** One chaos run, on a server that its caller starts and stops. */
export async function runChaos(
  startServer: (directory: string) => Promise<ChaosServer>,
  options: ChaosOptions,
  {
    commit,
    command,
    tell,
    interrupt,
  }: { commit: string; command: string; tell(line: string): void; interrupt: AbortSignal },
): Promise<ChaosReport> {
  tell('Building the actors …');
  const { directory, built } = await buildActors(options.beside);
  const server = await startServer(directory);
  const id = `chaos-${Date.now().toString(36)}`;
  const pools = [
    { resource: `${id}-steered`, slots: { capacity: options.capacity }, flaky: false, fair: true as const },
    { resource: `${id}-flaky`, slots: { slots: ['blue', 'green'] }, flaky: true },
    { resource: `${id}-keyed`, slots: { capacity: 3 }, flaky: false, perKey: 2 },
    { resource: `${id}-paced`, slots: { capacity: 2 }, flaky: false, paceMs: PACE_MS },
  ];
  let world: World | undefined;
  let isToKeep = false;
  try {
    const others = [
      { fault: PAUSE_WORKFLOW, isThere: await canPause(server), without: NO_PAUSE },
      { fault: DEPLOY_VERSION, isThere: options.beside === undefined, without: NO_VERSIONS },
    ];
    const leftOut = others.filter(({ isThere }) => !isThere);
    const known = [...FAULTS, ...STRANGERS, ...server.faults, ...others.map(({ fault }) => fault)];
    const faults = chosen(known, options).filter((it) => !leftOut.some(({ fault }) => fault === it));
    isToKeep = true;
    tell('Starting the actors …');
    world = await World.start(server, {
      ...{ seed: options.seed, pools, directory, built, tell, taskQueue: id },
      recheckAfterMs: RECHECK_AFTER_MS,
    });
    const startedAt = new Date();
    const durationMs = options.minutes * 60_000;
    const progress = setInterval(() => world && tell(standing(world, startedAt)), 30_000).unref();
    await torment(world, faults, { seed: options.seed, durationMs, everyMs: options.every, tell }, interrupt);
    clearInterval(progress);
    interrupt.throwIfAborted();
    tell('Healing …');
    const healing = Date.now();
    const leftovers = await heal(world, options.servedWithin);
    const healedInMs = Date.now() - healing;
    tell(`Healed in ${healedInMs} ms. Reading and replaying the histories …`);
    const resources = allResources(pools);
    const { faults: seen, ...found } = await readHistories(world.client, resources, built.bundle, directory);
    const { observer } = world;
    const record: ChaosRecord = {
      pools: pools.map(({ resource, slots, paceMs, flaky, perKey }) => ({
        ...{ resource, paceMs, flaky, perKey },
        slots: 'capacity' in slots ? (slots.capacity ?? 0) : slots.slots,
      })),
      permitWorkers: world.ofRole('permits').map(({ name }) => name),
      acquires: [...observer.acquires.values()],
      bodies: observer.bodies,
      writes: observer.writes,
      orders: observer.orders,
      outages: observer.outages,
      notCurrent: observer.notCurrent,
      deaths: observer.deaths,
      faults: [...observer.faults, ...seen],
      leftovers,
      ...found,
    };
    await writeFile(join(directory, 'record.json'), JSON.stringify(record));
    const { seed, minutes, idleLimit } = options;
    const report: ChaosReport = {
      ...{ seed, commit, command, minutes, healedInMs },
      server: server.described,
      startedAt: startedAt.toISOString(),
      leftOut: [...(actorClock(directory, 'probe') ? [] : [NO_FAKETIME]), ...leftOut.map(({ without }) => without)],
      ...judge(record, idleLimit),
    };
    await writeFile(join(directory, 'report.json'), JSON.stringify(report));
    isToKeep = !isClean(report) || report.slowest.tookMs > SLOW_MS;
    return report;
  } catch (error) {
    tell(await lastWords(directory, ACTORS));
    throw error;
  } finally {
    await world?.stop();
    await server.stop();
    if (isToKeep) tell(`The record, the logs and the server's state are kept in ${directory}.`);
    else await rm(directory, { recursive: true, force: true });
  }
}

/** With those of their keys. */
export function allResources(pools: readonly Pick<PoolSetup, 'resource' | 'perKey'>[]): string[] {
  return pools.flatMap(({ resource, perKey }) => [
    resource,
    ...(perKey === undefined ? [] : KEYS.map((key) => keyResource(resource, key))),
  ]);
}

/** Ends all faults, lets everybody be served, and says which permits are left then. */
async function heal(world: World, servedWithinMs: number): Promise<string[]> {
  await world.server.heal();
  const resources = allResources(world.options.pools);
  await within(30_000, async () => {
    await restoreCapacity(world);
    return true;
  });
  world.retire();
  await within(servedWithinMs, async () => world.isRetired);
  let left = ['Any permit (the server did not say which)'];
  await within(LEFT_WITHIN_MS, async () => {
    left = await runningPermits(world.client, [...resources, ...resources.map(accumulatorResource)]);
    return left.length === 0;
  });
  return left;
}

async function within(ms: number, isDone: () => Promise<boolean>): Promise<void> {
  for (const untilMs = performance.now() + ms; performance.now() < untilMs; await delay(500)) {
    if (await isDone().catch(() => false)) return;
  }
}

async function canPause({ address }: ChaosServer): Promise<boolean> {
  return await withConnection({ connectionOptions: { address } }, (connection) =>
    canPauseWorkflows(new Client({ connection })),
  );
}

/** @throws Error for a kind that there is not: a run would break nothing, and be clean */
function chosen(faults: readonly Fault[], { only, without }: ChaosOptions): Fault[] {
  const kinds = faults.map(({ kind }) => kind);
  const unknown = [...(only ?? []), ...(without ?? [])].filter((kind) => !kinds.includes(kind));
  if (unknown.length > 0)
    throw new Error(`No fault here is named ${unknown.join(', ')}. There are: ${kinds.join(', ')}.`);
  return faults.filter(({ kind }) => (only ? only.includes(kind) : !without?.includes(kind)));
}

function standing({ observer }: World, startedAt: Date): string {
  const minutes = ((Date.now() - startedAt.getTime()) / 60_000).toFixed(1);
  return `${minutes} min: ${observer.grants} grants, ${observer.waiting.length} waiting, ${observer.faults.length} faults`;
}
