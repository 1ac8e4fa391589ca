import { claimOrder } from '@/shared/key-names';
import type { ChaosRecord } from '../record';
import { Hits } from './hits';
import { covered } from './intervals';

/** So long after a fault, a caller may have lost the accumulator's permit by its lease, and another set have it. */
const LOST_MS = 7_000;

interface Part {
  resource: string;
  startedMs: number;
}

/** From the first to the last permit that a set has of one resource. */
interface Accumulation {
  set: string;
  actor: string;
  resource: string;
  fromMs: number;
  toMs: number;
}

/**
 * S8: a set claims its resources in one order, and no two each have a part of the permits that they want of one resource. So sets can't
 * deadlock. Judged by those that have begun to work: each permit's start at the server says when it was claimed.
 */
export function checkSets(record: ChaosRecord): { checked: number; violations: string[] } {
  const hits = new Hits(record);
  const sets = partsOfSets(record);
  const disordered = [...sets].filter(([, { parts }]) =>
    parts.some(({ resource }, at) => claimOrder(parts[at - 1]?.resource ?? resource, resource) > 0),
  );
  const last = new Map<string, Accumulation>();
  const violations = disordered.map(
    ([set, { parts }]) => `${set} claimed ${parts.map(({ resource }) => resource).join(', then ')}`,
  );
  for (const each of accumulations(sets)) {
    const before = last.get(each.resource);
    if (!before || each.toMs > before.toMs) last.set(each.resource, each);
    if (!before || each.fromMs >= before.toMs) continue;
    if (covered([before.fromMs, each.fromMs], hits.ofAny([before.actor, each.actor], LOST_MS)) > 0) continue;
    violations.push(`${before.set} and ${each.set} each had a part of what they wanted of ${each.resource}`);
  }
  return { checked: sets.size, violations };
}

/** The parts in the order in which they were claimed. */
function partsOfSets({ acquires, bodies, permits }: ChaosRecord): Map<string, { actor: string; parts: Part[] }> {
  const started = new Map(permits.map(({ runId, startedMs }) => [runId, startedMs]));
  const known = new Map(acquires.map((acquire) => [acquire.id, acquire]));
  const sets = new Map<string, { actor: string; parts: Part[] }>();
  for (const { acquire, resource, runId } of bodies) {
    const { set, actor = '' } = known.get(acquire) ?? {};
    const startedMs = started.get(runId);
    if (set === undefined || startedMs === undefined) continue;
    const entry = sets.get(set) ?? { actor, parts: [] };
    sets.set(set, entry);
    entry.parts.push({ resource, startedMs });
  }
  for (const { parts } of sets.values()) parts.sort((a, b) => a.startedMs - b.startedMs);
  return sets;
}

function accumulations(sets: ReadonlyMap<string, { actor: string; parts: readonly Part[] }>): Accumulation[] {
  const all = [...sets].flatMap(([set, { actor, parts }]) =>
    [...new Set(parts.map(({ resource }) => resource))].flatMap((resource): Accumulation[] => {
      const [first, ...others] = parts.filter((part) => part.resource === resource);
      const last = others.at(-1);
      return first && last ? [{ set, actor, resource, fromMs: first.startedMs, toMs: last.startedMs }] : [];
    }),
  );
  return all.sort((a, b) => a.fromMs - b.fromMs);
}
