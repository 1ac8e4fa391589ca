import { randomUUID } from 'node:crypto';
import { permitId, queueId } from '@/shared/permit-id';
import { slotNames } from '@/shared/slots';
import type { Cut, Slowness } from '../../../scripts/support/tcp-proxy';
import type { ActorProcess } from './actor-process';
import type { ActorInput, PoolSetup } from './actors/input';
import { limitsText } from './limits-text';
import { ANSWER, apply, deployedCount, ordered, pause, resize, resume, steered } from './operators';
import { Luck } from './random';
import type { FaultKind, PlannedFault } from './schedule';
import type { World } from './world';

/** What a fault did, and how that is undone. */
export interface Injected {
  /** What was hit. */
  target: string;
  /** For who reads along. */
  detail?: string;
  heal?(): Promise<void>;
}

export interface Fault extends FaultKind {
  /** @returns `undefined` when there was nothing to hit */
  inject(world: World, plan: PlannedFault): Promise<Injected | undefined>;
}

type Role = ActorInput['role'];

const ANY: Role[] = ['clients', 'application', 'permits'];

/** Every fault that a run has on any server, how often each comes beside the others, and how long it lasts. */
export const FAULTS: readonly Fault[] = [
  // Processes. The leases are 4, 5 and 6 seconds.
  kill('kill-client', 2, [200, 4_000], ['clients']),
  kill('kill-application', 1, [200, 5_000], ['application']),
  kill('kill-permit-worker', 2, [200, 5_000], ['permits']),
  freeze('stop-client', 2, [2_000, 9_000], ['clients']),
  freeze('stop-application', 1, [3_000, 12_000], ['application']),
  freeze('stop-permit-worker', 1, [2_000, 8_000], ['permits']),
  command('kill-command', 1, (child) => void child.kill('SIGKILL')),
  command(
    'stop-command',
    1,
    (child) => void child.kill('SIGSTOP'),
    (child) => void child.kill('SIGCONT'),
  ),
  // The network.
  cut('reset-connections', 1, [200, 3_000], 'reset'),
  cut('freeze-connections', 2, [1_000, 12_000], 'silent'),
  cut('cut-off-client', 1, [6_000, 12_000], 'silent', ['clients']), // for longer than a lease
  cut('discard-replies', 2, [500, 6_000], 'deaf'),
  slow('slow-requests', (luck) => ({ requestsMs: 50 + luck * 950 })),
  slow('slow-answers', (luck) => ({ answersMs: 50 + luck * 950 })),
  slow('throttle-connections', (luck) => ({ bytesPerSecond: 2_000 + luck * 20_000 })),
  // Time.
  stutters('stutter-client', 'clients'),
  stutters('stutter-application', 'application'),
  stutters('stutter-permit-worker', 'permits'),
  clockJump(),
  // Workflows.
  onHolder('terminate-holder', 2, async (world, workflowId) => await world.workflows.terminate(workflowId, 'chaos')),
  onHolder('reset-holder', 1, reset),
  onTurn(),
  {
    kind: 'terminate-queue',
    weight: 2,
    lastsMs: [0, 0],
    async inject({ client, options, observer }, { luck }) {
      const { resource } = pick(options.pools, luck[0]) ?? { resource: '' };
      const end = () => client.workflow.getHandle(queueId(resource)).terminate('chaos');
      await ordered(observer, { kind: 'terminate-queue', resource }, end);
      return { target: resource };
    },
  },
  {
    kind: 'terminate-permit',
    weight: 1,
    lastsMs: [0, 0],
    async inject({ client, options }, { luck }) {
      const pool = pick(options.pools, luck[0]) as PoolSetup;
      const workflowId = permitId({ resource: pool.resource, slot: slotOf(pool, luck[1]) });
      await client.workflow.getHandle(workflowId).terminate('chaos');
      return { target: workflowId };
    },
  },
  {
    kind: 'terminate-holder-and-permit',
    weight: 1,
    lastsMs: [0, 0],
    async inject({ client, observer, workflows }, { luck }) {
      const holding = observer.bodies.filter(
        ({ acquire, endedMs }) => endedMs === undefined && workflows.running.has(acquire),
      );
      const body = pick(holding, luck[0]);
      if (!body) return undefined;
      const permit = client.workflow.getHandle(permitId(body), body.runId);
      await Promise.all([workflows.terminate(body.acquire, 'chaos'), permit.terminate('chaos')]);
      return { target: body.acquire };
    },
  },
  // Operators.
  onPool('revoke', 2, async (world, pool, { luck }) => {
    const [slot, { resource }] = [slotOf(pool, luck[1]), pool];
    const revoke = () => world.operatorOf(pool).revoke(slot, { reason: 'chaos', timeout: ANSWER });
    await ordered(world.observer, { kind: 'revoke', resource, slot }, revoke);
  }),
  onPool('resize', 3, async (world, pool, { luck }) => {
    await resize(world, pool, 1 + Math.floor(luck[1] * (deployedCount(pool) + 2)));
  }),
  {
    kind: 'apply',
    weight: 3,
    lastsMs: [3_000, 20_000],
    async inject(world, { atMs, lastsMs }) {
      const luck = new Luck(`${world.options.seed}/limits/${atMs}`);
      const changed = await apply(world, limitsText(steered(world), atMs, luck));
      if (changed.length === 0) return undefined;
      const heal = async () => void (await apply(world, limitsText(steered(world), atMs + lastsMs)));
      return { target: 'a limits file', detail: `to ${changed.join(', ')}`, heal };
    },
  },
  paused('pause', 1, [500, 4_000]),
  paused('pause-long', 1, [12_000, 25_000]),
  onPool('pause-until', 2, async (world, pool, { luck }) => {
    await pause(world, pool, Date.now() + 500 + luck[1] * 3_500);
  }),
];

function paused(kind: string, weight: number, lastsMs: Fault['lastsMs']): Fault {
  return {
    kind,
    weight,
    lastsMs,
    async inject(world, { luck }) {
      const pool = pick(steered(world), luck[0]);
      if (!pool) return undefined;
      await pause(world, pool);
      return { target: pool.resource, heal: () => resume(world, pool) };
    },
  };
}

function kill(kind: string, weight: number, lastsMs: Fault['lastsMs'], roles: Role[]): Fault {
  return onActor(kind, weight, lastsMs, roles, async (actor) => await actor.kill());
}

function freeze(kind: string, weight: number, lastsMs: Fault['lastsMs'], roles: Role[]): Fault {
  return onActor(kind, weight, lastsMs, roles, async (actor) => actor.freeze());
}

function cut(kind: string, weight: number, lastsMs: Fault['lastsMs'], how: Cut, roles = ANY): Fault {
  return onActor(kind, weight, lastsMs, roles, async (actor) => actor.cutOff(how));
}

function slow(kind: string, how: (luck: number) => Slowness): Fault {
  return onActor(kind, 1, [3_000, 15_000], ANY, async (actor, luck) => actor.slowDown(how(luck)));
}

function stutters(kind: string, role: Role): Fault {
  return onActor(kind, 1, [3_000, 10_000], [role], async (actor, luck) => actor.stutter(100 + luck * 500, 100));
}

/** A fault of one process, on which no other fault is at work. */
function onActor(
  kind: string,
  weight: number,
  lastsMs: Fault['lastsMs'],
  roles: Role[],
  hit: (actor: ActorProcess, luck: number) => Promise<() => void | Promise<void>>,
): Fault {
  return {
    kind,
    weight,
    lastsMs,
    async inject(world, { luck }) {
      const actor = pick(
        world.ofRole(...roles).filter(({ isHit }) => !isHit),
        luck[0],
      );
      if (!actor) return undefined;
      actor.isHit = true;
      const undo = await hit(actor, luck[1]);
      return {
        target: actor.name,
        async heal() {
          await undo();
          actor.isHit = false;
        },
      };
    },
  };
}

type Command = World['commands']['running'] extends Map<string, infer Child> ? Child : never;

function command(kind: string, weight: number, hit: (child: Command) => void, undo?: (child: Command) => void): Fault {
  return {
    kind,
    weight,
    lastsMs: [2_000, 9_000],
    async inject({ commands }, { luck }) {
      const [target, child] = pick([...commands.running], luck[0]) ?? [];
      if (!target || !child) return undefined;
      hit(child);
      return { target, heal: async () => undo?.(child) };
    },
  };
}

function clockJump(): Fault {
  return {
    kind: 'jump-clock',
    weight: 1,
    lastsMs: [2_000, 20_000],
    async inject(world, { luck }) {
      const actor = pick(world.actors, luck[0]);
      const seconds = Math.round((luck[1] - 0.5) * 240);
      if (!actor?.jumpClock(seconds)) return undefined;
      return { target: actor.name, detail: `by ${seconds} s`, heal: async () => void actor.jumpClock(0) };
    },
  };
}

/** A waiter dies as it has its turn: a client's process, or a Workflow. */
function onTurn(): Fault {
  return {
    kind: 'kill-waiter-on-turn',
    weight: 2,
    lastsMs: [0, 0],
    async inject(world, { luck }) {
      if (luck[0] < 0.5) {
        world.armedTurns++;
        return { target: 'the next Workflow' };
      }
      const actor = pick(world.ofRole('clients'), luck[1]);
      actor?.order('kill-on-turn');
      return actor && { target: actor.name };
    },
  };
}

type HolderHit = (world: World, workflowId: string, plan: PlannedFault) => Promise<void>;

function onHolder(kind: string, weight: number, hit: HolderHit): Fault {
  return {
    kind,
    weight,
    lastsMs: [0, 0],
    async inject(world, plan) {
      const workflowId = pick([...world.workflows.running], plan.luck[0]);
      if (!workflowId) return undefined;
      await hit(world, workflowId, plan);
      return { target: workflowId };
    },
  };
}

function onPool(
  kind: string,
  weight: number,
  hit: (world: World, pool: PoolSetup, plan: PlannedFault) => Promise<void>,
): Fault {
  return {
    kind,
    weight,
    lastsMs: [0, 0],
    async inject(world, plan) {
      const pool = pick(steered(world), plan.luck[0]);
      if (!pool) return undefined;
      await hit(world, pool, plan);
      return { target: pool.resource };
    },
  };
}

/** Resets a Workflow to some point of its own history. */
async function reset({ client }: World, workflowId: string, { luck }: PlannedFault): Promise<void> {
  const { events } = await client.workflow.getHandle(workflowId).fetchHistory();
  const tasks = (events ?? []).filter((event) => event.workflowTaskCompletedEventAttributes);
  const task = pick(tasks, luck[1]);
  if (!task) return;
  await client.workflowService.resetWorkflowExecution({
    namespace: client.options.namespace,
    workflowExecution: { workflowId },
    workflowTaskFinishEventId: task.eventId,
    requestId: randomUUID(),
    reason: 'chaos',
  });
}

function slotOf({ slots }: PoolSetup, luck: number): string {
  return pick(slotNames('capacity' in slots ? slots.capacity : slots.slots), luck) ?? '0';
}

function pick<T>(items: readonly T[], luck: number): T | undefined {
  return items[Math.floor(luck * items.length)];
}
