import type { ChaosRecord, Outage } from '../record';
import { type Interval, union, without } from './intervals';

/** What the faults hit, and when. */
export class Hits {
  private readonly known = new Map<string, Interval[]>();

  constructor(private readonly record: ChaosRecord) {}

  /**
   * When a fault was at work on that actor or acquire, or on what all need: the server, which may only be slow, or every permit worker.
   * @param afterMs counts so long after the end of each: until connections are back, or a task is tried again
   */
  of(name: string, afterMs = 0): Interval[] {
    const key = `${name} ${afterMs}`;
    const known = this.known.get(key);
    if (known) return known;
    const { faults, outages } = this.record;
    // A fault that could not be healed has hit all the same.
    const own = faults
      .filter(({ target }) => target === name || target === '*' || target === 'server')
      .map(
        ({ atMs, healedMs, failed }): Interval => [atMs, healedMs ?? (failed ? Number.POSITIVE_INFINITY : atMs + 1)],
      );
    const all = [...own, ...ofScope(outages, name), ...allDown(this.record)];
    const hits = union(all.map(([fromMs, toMs]) => [fromMs, toMs + afterMs]));
    this.known.set(key, hits);
    return hits;
  }

  /** When the permit workers had other work: one of them was hit, or a stranger kept them busy, who may cost time. */
  ofWorkers(afterMs: number): Interval[] {
    const { faults, permitWorkers } = this.record;
    const strangers = faults.filter(({ kind }) => kind.startsWith('stranger-'));
    const busy = strangers.map(({ atMs, healedMs = atMs }): Interval => [atMs, healedMs + afterMs]);
    return union([...this.ofAny(permitWorkers, afterMs), ...busy]);
  }

  /** When this actor could do nothing: it was stopped, again and again, or killed. One that is only cut off knows its own lease. */
  stopped(name: string, afterMs: number): Interval[] {
    const { faults } = this.record;
    const stops = faults.filter(
      ({ kind, target }) => (target === name || target === '*') && /^(stop|stutter|kill)-/.test(kind),
    );
    return union(stops.map(({ atMs, healedMs = Number.POSITIVE_INFINITY }) => [atMs, healedMs + afterMs]));
  }

  /** When the server's answers to this actor got lost: it took them for delivered. */
  withoutReplies(name: string, afterMs: number): Interval[] {
    const lost = this.record.faults.filter(({ kind, target }) => kind === 'discard-replies' && target === name);
    return lost.map(({ atMs, healedMs = atMs }) => [atMs, healedMs + afterMs]);
  }

  /** When a stranger flooded that Workflow, so that others' signals, such as renewals, did not get through. */
  flooded(workflowId: string): Interval[] {
    const floods = this.record.faults.filter(({ kind, target }) => kind === 'stranger-flood' && target === workflowId);
    return floods.map(({ atMs, healedMs = atMs }) => [atMs, healedMs]);
  }

  /** When the server had paused that Workflow, or one run of it. It runs no code then. */
  paused(workflowId: string, runId?: string): Interval[] {
    return pausedTimes(this.record, workflowId, runId);
  }

  /** When a fault was at work on any of these. */
  ofAny(names: readonly string[], afterMs = 0): Interval[] {
    return union(names.flatMap((name) => this.of(name, afterMs)));
  }
}

/** When nobody could be served: the server was down, or every permit worker was that has the current version. */
export function allDown({ outages, notCurrent, permitWorkers }: ChaosRecord): Interval[] {
  const idle = [...outages, ...notCurrent];
  const [first = [], ...others] = permitWorkers.map((worker) => union(ofScope(idle, worker)));
  const allWorkers = others.reduce((down, other) => without(down, without(down, other)), first);
  return union([...ofScope(outages, '*'), ...allWorkers]);
}

export function pausedTimes({ pauses }: Pick<ChaosRecord, 'pauses'>, workflowId: string, runId?: string): Interval[] {
  const own = pauses.filter((pause) => pause.workflowId === workflowId && (runId ?? pause.runId) === pause.runId);
  return union(own.map(({ fromMs, toMs }) => [fromMs, toMs]));
}

export function ofScope(outages: readonly Outage[], scope: string): Interval[] {
  return outages.filter((outage) => outage.scope === scope).map(({ fromMs, toMs }) => [fromMs, toMs]);
}
