import { randomUUID } from 'node:crypto';
import type { Client } from '@temporalio/client';
import { QUERY_MS } from '@/client/server/server';
import { permitId, queueId } from '@/shared/permit-id';
import {
  CLOSING,
  DECLINED,
  ENQUEUE,
  MISSED,
  PREEMPT,
  QUEUE_VIEW,
  QUEUE_WORKFLOW,
  type QueueView,
  RENEW,
  REVOKED,
  TURN,
  WATCH,
} from '@/shared/protocol';
import { slotNames } from '@/shared/slots';
import { names, soundTicket } from '../../support/malformed';
import { send, UNDECODABLE } from '../../support/strangers';
import type { PoolSetup } from './actors/input';
import type { Fault, Injected } from './faults';
import type { PlannedFault } from './schedule';
import type { World } from './world';

// What anyone in the namespace can send. It may cost others order and time, and some of it a permit; never a worker.

/** Signals to a permit and to a queue that come at once. */
const FLOOD = 2_300;
const AT_ONCE = 50;
/** A busy machine may not send them all. */
const FLOOD_MS = 15_000;

/** Slots that nobody has, of the longest names. */
const invented = (prefix: string, count: number) => names(prefix, count, 230);

export const STRANGERS: readonly Fault[] = [
  stranger('stranger-cron', [4_000, 12_000], async ({ client, options, observer }, pool, { luck }) => {
    // Half of the time in the place of a line, and else under a name of its own.
    const isReal = luck[1] < 0.5;
    const workflowId = queueId(isReal ? pool.resource : `${pool.resource}-of-a-stranger`);
    const forget = () =>
      isReal &&
      observer.orders.push({
        kind: 'terminate-queue',
        resource: pool.resource,
        sentMs: Date.now(),
        answeredMs: Date.now() + 2_000,
      });
    forget();
    await client.workflow.start(QUEUE_WORKFLOW, {
      workflowId,
      taskQueue: options.taskQueue,
      workflowIdConflictPolicy: 'TERMINATE_EXISTING',
      cronSchedule: '@every 5s',
      args: [{ tickets: [], view: forgedView(pool, luck[2]) }],
    });
    const heal = async () => {
      forget();
      await client.workflow.getHandle(workflowId).terminate('a stranger’s');
    };
    return { target: workflowId, heal };
  }),
  stranger('stranger-flood', [0, 0], async ({ client }, pool, { luck }) => {
    const permit = permitId({ resource: pool.resource, slot: pick(namesOf(pool), luck[1]) ?? '0' });
    const queue = queueId(pool.resource);
    const [workflowId, signal] = (
      [
        [permit, (n: number) => [WATCH, { queueId: `permit-queue:nobody-${n}`, preempt: true }]],
        [permit, () => [RENEW, {}]],
        [queue, () => [ENQUEUE, soundTicket({ priorityKey: 5 })]],
      ] as const
    )[Math.floor(luck[2] * 3)] as [string, (n: number) => [string, unknown]];
    await send(client, workflowId, ...signal(0)); // is it there?
    await inBatches(FLOOD, async (n) => await send(client, workflowId, ...signal(n)).catch(() => undefined));
    return { target: workflowId, detail: signal(0)[0] };
  }),
  stranger('stranger-turn', [0, 0], async (world, pool, { luck }) => {
    const [holder, waiter] = [
      pick([...world.workflows.running], luck[1]),
      await firstWaiter(world.client, pool.resource),
    ];
    for (const workflowId of [holder, waiter]) {
      // No UTF-8: each byte comes back as three.
      if (workflowId)
        await sendBytes(
          world.client,
          workflowId,
          TURN,
          '{"queueId":"permit-queue:x","ticketId":"t","slot":"',
          1_000_000,
        );
    }
    return { target: 'nobody', detail: `${holder}, ${waiter}` };
  }),
  stranger('stranger-undecodable', [0, 0], async ({ client, workflows }, pool, { luck }) => {
    const permit = permitId({ resource: pool.resource, slot: pick(namesOf(pool), luck[1]) ?? '0' });
    const holder = pick([...workflows.running], luck[2]);
    const waiter = await firstWaiter(client, pool.resource);
    for (const [workflowId, signals] of [
      [permit, [RENEW, WATCH, 'adopt', 'preempt']],
      [queueId(pool.resource), [ENQUEUE, MISSED, DECLINED, CLOSING, 'preemptible', 'override']],
      [holder, [TURN, REVOKED, 'permit-preempted', 'permit-ended']],
      [waiter, [TURN]],
    ] as const) {
      if (!workflowId) continue;
      for (const signal of signals)
        for (const payload of Object.values(UNDECODABLE))
          await send(client, workflowId, signal, payload).catch(() => undefined); // it may have ended
    }
    return { target: 'nobody', detail: `${permit}, ${holder}, ${waiter}` };
  }),
  stranger('stranger-preempt', [0, 0], async ({ client }, pool, { luck }) => {
    const { resource } = pool;
    const wish = { priorityKey: luck[2] < 0.5 ? 1 : 1_000 };
    for (const slot of namesOf(pool))
      await send(client, permitId({ resource, slot }), PREEMPT, wish).catch(() => undefined); // nobody may hold it
    return { target: 'nobody', detail: `${resource}, ${wish.priorityKey}` };
  }),
  stranger('stranger-names', [0, 0], async ({ client, options }, pool) => {
    for (const prefix of ['a', 'b', 'c', 'd'])
      await send(client, queueId(pool.resource), ENQUEUE, soundTicket({ slots: invented(prefix, 1_000) }));
    // And an order for slots of which there are none, to a line of its own.
    const own = queueId(`${pool.resource}-of-a-stranger`);
    await client.workflow.signalWithStart(QUEUE_WORKFLOW, {
      workflowId: own,
      taskQueue: options.taskQueue,
      signal: 'override',
      signalArgs: [{ slots: invented('e', 30), paused: true }],
      args: [{ tickets: [] }],
    });
    return { target: pool.resource };
  }),
];

type Hit = (world: World, pool: PoolSetup, plan: PlannedFault) => Promise<Injected | undefined>;

function stranger(kind: string, lastsMs: Fault['lastsMs'], hit: Hit): Fault {
  return {
    kind,
    weight: 1,
    lastsMs,
    async inject(world, plan) {
      const pools = world.options.pools.filter(({ flaky }) => !flaky);
      const pool = pick(pools, plan.luck[0]);
      return pool && (await hit(world, pool, plan));
    },
  };
}

/** A memory that no queue ever had: a pause, slots held for ever, and tickets whose turns nobody could be told. */
function forgedView({ resource, slots }: PoolSetup, luck: number): unknown {
  const ticket = (workflowId: string) => soundTicket({ waiter: { workflowId, runId: randomUUID() } });
  const tickets = ['\ud800', '', 'w'.repeat(5_000), permitId({ resource, slot: '0' }), queueId(resource)].map(ticket);
  const slotsOf = 'capacity' in slots ? slots.capacity : slots.slots;
  const view: Partial<QueueView> | object = {
    tickets,
    slots: namesOf({ resource, slots, flaky: false }).map((slot) => [
      slot,
      { at: 'held', sinceMs: 0, probeAtMs: 8e15 },
    ]),
    shares: [],
    override: { version: 9e15, slots: slotsOf, paused: true, reason: 'forged' },
  };
  return luck < 0.5
    ? view
    : {
        ...view,
        tickets: [null, 5, { id: {} }],
        slots: 'x',
        shares: { length: 1e9 },
        override: { paused: 'x', version: {} },
      };
}

/** Queries as the library does: a query that waits longer may itself spoil the queue's history (`test:slow takeover`). */
async function firstWaiter(client: Client, resource: string): Promise<string | undefined> {
  const query = () => client.workflow.getHandle(queueId(resource)).query<QueueView>(QUEUE_VIEW);
  const view = client.withDeadline(Date.now() + QUERY_MS, query);
  return (await view.catch(() => undefined))?.tickets[0]?.waiter.workflowId;
}

async function sendBytes(
  client: Client,
  workflowId: string,
  signalName: string,
  before: string,
  bytes: number,
): Promise<void> {
  const data = Buffer.concat([Buffer.from(before), Buffer.alloc(bytes, 0xff), Buffer.from('"}')]);
  await client.workflowService.signalWorkflowExecution({
    namespace: client.options.namespace,
    workflowExecution: { workflowId },
    signalName,
    requestId: randomUUID(),
    input: { payloads: [{ metadata: { encoding: Buffer.from('json/plain') }, data }] },
  });
}

async function inBatches(count: number, work: (n: number) => Promise<void>): Promise<void> {
  const untilMs = performance.now() + FLOOD_MS;
  for (let from = 0; from < count && performance.now() < untilMs; from += AT_ONCE)
    await Promise.all(Array.from({ length: AT_ONCE }, (_, n) => work(from + n)));
}

function namesOf({ slots }: PoolSetup): readonly string[] {
  return slotNames('capacity' in slots ? slots.capacity : slots.slots);
}

function pick<T>(items: readonly T[], luck: number): T | undefined {
  return items[Math.floor(luck * items.length)];
}
