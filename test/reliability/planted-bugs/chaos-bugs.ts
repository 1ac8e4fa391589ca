import type { PlantedBug } from './plant';

/** A bug that chaos must find. */
export interface ChaosBug extends Omit<PlantedBug, 'caughtBy'> {
  /** What it breaks. */
  of: 'safety' | 'loss' | 'liveness' | 'order' | 'operators' | 'sets' | 'keys' | 'permit pools' | 'pre-emption';
  /** Kinds of faults that bring it out, separated by commas. */
  faults: string;
  /** From one to the next, on average. @default 2,500 ms */
  everyMs?: number;
}

const KILLS = 'kill-client,kill-application';
const STOPS = 'stop-client,stop-application,kill-client';

/**
 * Mistakes that somebody could make, each of a promise of its own. `pnpm planted-bugs --chaos` plants them. Those that cost only time, a
 * lost wake-up for example, are for the simulation, which bounds the time from a release to the next grant.
 */
export const CHAOS_BUGS: readonly ChaosBug[] = [
  {
    name: 'A client takes a slot that is held: its start uses the running permit',
    of: 'safety',
    in: 'start',
    find: "'FAIL'",
    replace: "'USE_EXISTING'",
    faults: KILLS,
  },
  {
    name: 'A release of a client is not pinned to its run',
    of: 'safety',
    in: 'PermitRun.constructor',
    find: 'server.client.workflow.getHandle(ref.workflowId, ref.runId)',
    replace: 'server.client.workflow.getHandle(ref.workflowId)',
    faults: 'revoke',
    everyMs: 700,
  },
  {
    name: 'A release of a Workflow is not pinned to its run',
    of: 'safety',
    in: 'release',
    find: 'await deliver(permit, releaseSignal)',
    replace: "this.wasGone = (await deliver({ workflowId: this.workflowId }, releaseSignal)) === 'not-found'",
    faults: 'revoke',
    everyMs: 700,
  },
  {
    name: 'A fence admits an older token',
    of: 'safety',
    in: 'MemoryFence.transaction',
    find: 'token.compare(newest.token) < 0',
    replace: 'token.compare(newest.token) < -1',
    faults: STOPS,
  },
  {
    name: 'A slot with a pace is free as soon as its holder is done',
    of: 'safety',
    in: 'holdSlot',
    find: 'await pace?.over(() => isRevoked)',
    replace: '',
    faults: KILLS,
  },
  {
    name: 'A waiter claims any slot that a turn names, and the queue offers one more than there are',
    of: 'safety',
    in: 'isSlotInUse',
    find: 'capacity ?? slots',
    replace: '(capacity ?? slots) + 1',
    faults: 'resize',
  },
  {
    name: 'Renewals are ignored',
    of: 'loss',
    in: 'holdSlot',
    find: 'deadlineMs = Math.max(deadlineMs, Date.now() + (readLeaseMs(renewal) ?? leaseMs));',
    replace: 'void [readLeaseMs, renewal];',
    faults: KILLS,
  },
  {
    name: 'A holding Workflow is not told that its permit was revoked, nor that it ended',
    of: 'loss',
    in: 'holdAllWhile',
    find: 'stopped ??= error; body.cancel();',
    replace: 'stopped ??= error;',
    faults: 'revoke,terminate-permit,stop-permit-worker',
    everyMs: 1_000,
  },
  {
    name: 'A client goes on after its lease is over',
    of: 'loss',
    in: 'client/holder/Grant.isHeld',
    find: 'this.lease.safeMs > 0',
    replace: 'true',
    faults: 'cut-off-client',
    everyMs: 7_000,
  },
  {
    name: 'A client does not hear that its permit has ended',
    of: 'loss',
    in: 'client/holder/Permit.onLost',
    find: 'this.stop.abort(error);',
    replace: '',
    faults: 'revoke,terminate-permit',
    everyMs: 700,
  },
  {
    name: 'A permit outlives its release by eight seconds',
    of: 'liveness',
    in: 'holdSlot',
    find: 'countHold(holder, outcome);',
    replace: 'countHold(holder, outcome); await CancellationScope.nonCancellable(() => sleep(8_000));',
    faults: KILLS,
  },
  {
    name: 'A turn that nobody uses stands for ever',
    of: 'liveness',
    in: 'QueueState.move',
    find: 'this.offers.overdueMs(slot, state) > nowMs',
    replace: 'true',
    faults: 'kill-client,stop-client,kill-waiter-on-turn',
  },
  {
    name: 'A client that is cancelled as it claims gives nothing back',
    of: 'liveness',
    in: 'giveBack',
    find: 'await won.release()',
    replace: 'undefined',
    faults: 'kill-command',
  },
  {
    name: 'Turns go by arrival alone',
    of: 'order',
    in: 'TurnOrder.compare',
    find: 'priorityOf(a) - priorityOf(b)',
    replace: '0',
    faults: KILLS,
  },
  {
    name: 'Of equals, the one who came last is served first',
    of: 'order',
    in: 'TurnOrder.compare',
    find: 'a.sinceMs - b.sinceMs',
    replace: 'b.sinceMs - a.sinceMs',
    faults: KILLS,
  },
  {
    name: 'A shrink is ignored',
    of: 'operators',
    in: 'isSlotInUse',
    find: 'capacity ?? slots',
    replace: 'Math.max(slots, capacity ?? 0)',
    faults: 'resize',
  },
  {
    name: 'A limits file shrinks nothing',
    of: 'operators',
    in: 'compareOne',
    find: 'resizes && { capacity: wanted }',
    replace: 'resizes && { capacity: Math.max(wanted, inUse ?? 0) }',
    faults: 'apply',
  },
  {
    name: 'A pause is ignored',
    of: 'operators',
    in: 'isSlotInUse',
    find: 'if (paused) return false;',
    replace: '',
    faults: 'pause-long',
  },
  {
    name: 'A slot that is in use again is not given back',
    of: 'operators',
    in: 'Drains.keep',
    find: '!this.wanted.isOutOfUse(slot)',
    replace: 'false',
    faults: 'resize,pause',
  },
  {
    name: 'A revoke answers before the permit has ended',
    of: 'operators',
    in: 'Operator.revoke',
    find: 'await run.end(persistence.signal);',
    replace: '',
    faults: 'revoke,stop-permit-worker',
  },
  {
    name: 'A queue that continues as new forgets what an operator has set',
    of: 'operators',
    in: 'QueueState.view',
    find: 'overridden && { override: overridden }',
    replace: 'overridden && {}',
    faults: 'resize,pause-long',
  },
  {
    name: 'Sets claim in the order in which their callers name the resources',
    of: 'sets',
    in: 'partsInOrder',
    find: 'resources.sort((a, b) => claimOrder(a.semaphore.resource, b.semaphore.resource));',
    replace: 'void claimOrder;',
    faults: 'kill-command',
  },
  {
    name: 'Several permits of one resource are claimed without the accumulator',
    of: 'sets',
    in: 'partsInOrder',
    find: "[{ ...part, semaphore: accumulatorOf(semaphore), role: 'accumulator', permits: undefined }, ...Array.from({ length: permits }, () => part)]",
    replace: 'Array.from({ length: permits }, () => part)',
    faults: 'kill-command',
  },
  {
    name: 'A set that can’t be had gives nothing back',
    of: 'sets',
    in: 'acquireInOrder',
    find: 'await giveAllBack(grants()).catch(() => undefined)',
    replace: '',
    faults: 'kill-command',
  },
  {
    name: 'A key may have one permit too many',
    of: 'keys',
    in: 'semaphoresFor',
    find: 'slotNames(capacity)',
    replace: 'slotNames(capacity + 1)',
    faults: KILLS,
  },
  {
    name: 'A key’s limit in a limits file is told to no queue',
    of: 'keys',
    in: 'applyOne',
    find: 'operator.set(change, { ifVersion, reason })',
    replace:
      'of.limit.key === undefined ? operator.set(change, { ifVersion, reason }) : { version: ifVersion + 1, paused: false }',
    faults: 'apply',
  },
  {
    name: 'A permit pool gives one permit to several calls at once',
    of: 'permit pools',
    in: 'PoolState.serve',
    find: 'this.idle.pop()',
    replace: '',
    faults: KILLS,
  },
  {
    name: 'A permit pool gives an idle permit back only when it closes',
    of: 'permit pools',
    in: 'PoolState.giveBackIdle',
    find: 'nowMs < held.idleSinceMs + idleForMs && !this.isToGoBack(held, nowMs)',
    replace: 'true',
    faults: 'kill-command', // a client that is killed keeps nothing for long
  },
  {
    name: 'A holder that gives way has no grace',
    of: 'pre-emption',
    in: 'GivingWay.begin',
    find: 'Date.now() + graceMs',
    replace: 'Date.now() + 0 * graceMs',
    faults: 'stranger-preempt',
    everyMs: 700,
  },
  {
    name: 'A holder gives way to a waiter that does not outrank it',
    of: 'pre-emption',
    in: 'GivingWay.constructor',
    find: 'waiter && waiter.priorityKey < preemptible.priorityKey',
    replace: 'waiter',
    faults: 'stranger-preempt',
    everyMs: 700,
  },
];
