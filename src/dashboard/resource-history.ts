import type { Holder } from '../client';
import { workerCommand } from '../client/server/commands';
import type { Inspection, Override, PermitInspection, WaiterInspection } from '../operator';
import { pausedIn } from '../operator/paused';
import { isLineKnown, shownPurpose, strangersLine } from '../operator/reader';
import { strangersRemedy } from '../operator/remedies';
import type {
  HoldView,
  LoadView,
  PartyView,
  Percentiles,
  PermitStatus,
  ResourceHead,
  ResourceStats,
  ResourceView,
  SlotView,
  WaiterView,
} from './page-protocol';

/** How far back the page looks. */
const WINDOW_MS = 5 * 60_000;

/** The most that this keeps: the page shows fewer minutes of a busy resource. */
const MAX_HOLDS = 600;
const MAX_WAITERS_SHOWN = 200;
const MAX_WAITS = 2_000;

/** Many looks make one step of the load over time, so that the window is sixty numbers. */
const STEP_MS = 5_000;

/** How long a waiter is remembered after it has left the queue: visibility shows its permit late. */
const REMEMBER_WAITER_MS = 60_000;

/** A longer gap between two looks may hide a waiter. */
const GAP_MS = 10_000;

/** What the looks of one step have seen. */
interface Step {
  looks: number;
  /** Of all its looks together. */
  held: number;
  waiting?: number;
  capacity?: number;
}

interface SeenWaiter {
  workflowId: string;
  runId: string;
  identity?: string;
  sinceMs: number;
  lastSeenMs: number;
}

/**
 * Combines the looks at one resource into what no single look shows: the holders of each slot over time, and how long they
 * waited. It has no clock of its own, and keeps a bounded part of the past.
 */
export class ResourceHistory {
  private readonly holds = new Map<string, HoldView>();
  private readonly leaseSpans = new Map<string, number>();
  private readonly waiters = new Map<string, SeenWaiter>();
  private readonly steps = new Map<number, Step>();
  private waits: { atMs: number; waitMs: number }[] = [];
  private lastLookMs = Number.NEGATIVE_INFINITY;
  /** The waiters as of the last look that the queue answered. */
  private line: { waiters: WaiterInspection[]; atMs: number } | undefined;
  /** The time since which no gap was too long. */
  private watchingSinceMs = 0;

  /** @param nowMs when `inspection` was asked for */
  look(inspection: Inspection, nowMs: number): ResourceView {
    if (nowMs - this.lastLookMs > GAP_MS) this.watchingSinceMs = nowMs;
    this.lastLookMs = nowMs;
    this.seeWaiters(inspection, nowMs);
    this.seePermits(inspection, nowMs);
    this.seePast(inspection, nowMs);
    this.seeLoad(inspection, nowMs);
    this.forget(nowMs);
    const { resource, capacity, held, queue, taskQueue, override, disagreement, strangers, slots } = inspection;
    const isKnown = isLineKnown(inspection);
    const paused = pausedIn(inspection).map(({ what, advice }) => `${what}. ${advice}`);
    if (isKnown) this.line = { waiters: inspection.waiters, atMs: nowMs };
    return {
      resource,
      head: {
        ready: true,
        capacity,
        held,
        waiting: this.line?.waiters.length,
        longestSinceMs: this.longestSinceMs(),
        waitersAsOfMs: isKnown ? undefined : this.line?.atMs,
        queue,
        remedy: queue === 'silent' && taskQueue !== undefined ? workerCommand(taskQueue) : undefined,
        ...(paused.length > 0 && { paused }),
        override: override && overrideView(override),
        disagreement,
        strangers: strangers && `${strangersLine(strangers)}. ${strangersRemedy(strangers)}`,
        stats: this.stats(nowMs),
      },
      slots: slots.map(({ slot, state, permit }) => this.slotView(slot, state, permit)),
      waiters: (this.line?.waiters ?? []).slice(0, MAX_WAITERS_SHOWN).map(waiterView),
      holds: [...this.holds.values()],
      load: [...this.steps].map(([atMs, step]) => loadView(atMs, step)),
    };
  }

  private longestSinceMs(): number | undefined {
    const [first, ...others] = this.line?.waiters ?? [];
    return first && others.reduce((least, { since }) => Math.min(least, since.getTime()), first.since.getTime());
  }

  private seeWaiters({ waiters }: Inspection, nowMs: number): void {
    for (const { ticketId, workflowId, runId, identity, since } of waiters) {
      this.waiters.set(ticketId, { workflowId, runId, identity, sinceMs: since.getTime(), lastSeenMs: nowMs });
    }
  }

  private seeLoad({ held, capacity, queue, waiters }: Inspection, nowMs: number): void {
    const atMs = nowMs - (nowMs % STEP_MS);
    const step = this.steps.get(atMs) ?? { looks: 0, held: 0 };
    step.looks++;
    step.held += held;
    step.capacity = capacity;
    if (isLineKnown({ queue })) step.waiting = Math.max(step.waiting ?? 0, waiters.length);
    this.steps.set(atMs, step);
  }

  private seePermits({ slots }: Inspection, nowMs: number): void {
    const running = new Set<string>();
    for (const { slot, state, permit } of slots) {
      if (!permit) continue;
      const { runId, holder, since, leaseDeadline } = permit;
      running.add(runId);
      const drained = state === 'drained' ? true : undefined;
      const hold: HoldView = {
        runId,
        slot,
        holder: partyView(holder),
        purpose: shownPurpose(permit),
        drained,
        fromMs: since.getTime(),
      };
      this.seeHold(hold, holder);
      if (leaseDeadline) {
        const leftMs = leaseDeadline.getTime() - nowMs;
        this.leaseSpans.set(runId, Math.max(leftMs, this.leaseSpans.get(runId) ?? 0));
      }
    }
    for (const [runId, hold] of this.holds) {
      if (hold.toMs === undefined && !running.has(runId)) this.holds.set(runId, { ...hold, toMs: nowMs });
    }
    for (const runId of this.leaseSpans.keys()) if (!running.has(runId)) this.leaseSpans.delete(runId);
  }

  /** The server's record of past holds replaces what our looks suggest. */
  private seePast({ recent }: Inspection, nowMs: number): void {
    for (const { slot, runId, holder, purpose, permitPool, from, to, outcome } of [...recent].reverse()) {
      if (to.getTime() < nowMs - WINDOW_MS) continue;
      const drained = this.holds.get(runId)?.drained;
      const times = { fromMs: from.getTime(), toMs: to.getTime() };
      this.seeHold(
        {
          runId,
          slot,
          holder: partyView(holder),
          purpose: shownPurpose({ purpose, permitPool }),
          drained,
          ...times,
          outcome,
        },
        holder,
      );
    }
  }

  private seeHold(hold: HoldView, holder: Holder): void {
    const known = this.holds.has(hold.runId);
    this.holds.set(hold.runId, hold);
    // It is unknown how long a holder waited if it came while no page was open.
    if (known || hold.drained || hold.fromMs < this.watchingSinceMs) return;
    const waited = this.takeWaiter(holder, hold.fromMs);
    this.waits.push({
      atMs: hold.fromMs,
      waitMs: waited === undefined ? 0 : Math.max(0, hold.fromMs - waited.sinceMs),
    });
  }

  /** Takes out the waiter that now holds. Of several waiters of one client, the first is served. */
  private takeWaiter({ workflowId, runId, identity }: Holder, fromMs: number): SeenWaiter | undefined {
    let found: [string, SeenWaiter] | undefined;
    for (const [ticketId, waiter] of this.waiters) {
      const itsOwn = workflowId
        ? waiter.workflowId === workflowId && waiter.runId === runId
        : waiter.identity !== undefined && waiter.identity === identity;
      if (itsOwn && waiter.sinceMs <= fromMs && !(found && found[1].sinceMs <= waiter.sinceMs))
        found = [ticketId, waiter];
    }
    if (found) this.waiters.delete(found[0]);
    return found?.[1];
  }

  private forget(nowMs: number): void {
    const oldestMs = nowMs - WINDOW_MS;
    const inOrder = [...this.holds.values()].sort((a, b) => a.fromMs - b.fromMs);
    const kept = inOrder.filter(({ toMs }) => toMs === undefined || toMs >= oldestMs);
    const excess = kept.length - MAX_HOLDS;
    this.holds.clear();
    for (const [index, hold] of kept.entries()) {
      if (index >= excess || hold.toMs === undefined) this.holds.set(hold.runId, hold);
    }
    this.waits = this.waits.filter(({ atMs }) => atMs >= oldestMs).slice(-MAX_WAITS);
    for (const atMs of this.steps.keys()) if (atMs < oldestMs) this.steps.delete(atMs);
    for (const [ticketId, { lastSeenMs }] of this.waiters) {
      if (lastSeenMs < nowMs - REMEMBER_WAITER_MS) this.waiters.delete(ticketId);
    }
  }

  private stats(nowMs: number): ResourceStats {
    const holds = [...this.holds.values()].filter(({ drained }) => !drained);
    return {
      windowMs: WINDOW_MS,
      grantsPerMinute: holds.filter(({ fromMs }) => fromMs > nowMs - 60_000).length,
      waits: percentiles(this.waits.map(({ waitMs }) => waitMs)),
      holds: percentiles(holds.flatMap(({ fromMs, toMs }) => (toMs === undefined ? [] : [toMs - fromMs]))),
    };
  }

  private slotView(slot: string, state: SlotView['state'], permit: PermitInspection | undefined): SlotView {
    return { slot, state, permit: permit && permitView(permit, this.leaseSpans.get(permit.runId)) };
  }
}

function permitView(permit: PermitInspection, leaseSpanMs: number | undefined): PermitStatus {
  const { workflowId, runId, holder, since, paused, leaseDeadline, leaseSpared, preemptedUntil } = permit;
  return {
    workflowId,
    runId,
    holder: partyView(holder),
    purpose: shownPurpose(permit),
    sinceMs: since.getTime(),
    ...(paused && { paused }),
    leaseDeadlineMs: leaseDeadline?.getTime(),
    leaseSpared,
    preemptedUntilMs: preemptedUntil?.getTime(),
    leaseSpanMs,
  };
}

function waiterView(waiter: WaiterInspection): WaiterView {
  const { ticketId, workflowId, runId, identity, priorityKey, fairnessKey, since, turn } = waiter;
  const party = { name: identity ?? workflowId, workflowId, runId };
  return { ticketId, waiter: party, priorityKey, fairnessKey, sinceMs: since.getTime(), turn };
}

function loadView(atMs: number, { looks, held, waiting, capacity }: Step): LoadView {
  return { atMs, held: Math.round((held / looks) * 10) / 10, waiting, capacity };
}

function overrideView({ pausedUntil, capacityUntil, ...override }: Override): ResourceHead['override'] {
  return { ...override, capacityUntilMs: capacityUntil?.getTime(), pausedUntilMs: pausedUntil?.getTime() };
}

function partyView(holder: Holder): PartyView {
  const { workflowId, runId, workflowType } = holder;
  return { name: nameOf(holder), workflowType, workflowId, runId };
}

function nameOf({ workflowId, identity }: Holder): string {
  return workflowId ?? identity ?? 'unknown';
}

/** Nearest-rank percentiles: each is a value that occurred. `undefined` when there are no values. */
function percentiles(values: readonly number[]): Percentiles | undefined {
  if (values.length === 0) return undefined;
  const sorted = [...values].sort((a, b) => a - b);
  const at = (share: number) => sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? 0;
  return { count: sorted.length, p50Ms: at(0.5), p95Ms: at(0.95), maxMs: at(1) };
}
