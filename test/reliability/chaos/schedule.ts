import { Luck } from './random';

export interface FaultKind {
  readonly kind: string;
  /** How often it comes beside the others. */
  readonly weight: number;
  /** How long it lasts, in milliseconds; drawn between the two. */
  readonly lastsMs: readonly [number, number];
}

export interface PlannedFault {
  readonly atMs: number;
  readonly kind: string;
  readonly lastsMs: number;
  /** Numbers in [0, 1) by which a fault chooses its victim and the rest. */
  readonly luck: readonly [number, number, number];
}

/**
 * The faults of a run, by its seed alone. Each round has every kind as often as its weight says, shuffled, so that a short run
 * meets all of them. The seed repeats this plan; how the processes interleave with it is the machine's luck.
 */
export function planFaults(
  kinds: readonly FaultKind[],
  { seed, durationMs, everyMs }: { seed: string; durationMs: number; everyMs: number },
): PlannedFault[] {
  const luck = new Luck(seed);
  const plan: PlannedFault[] = [];
  if (kinds.length === 0) return plan;
  const round = kinds.flatMap((kind) => Array.from({ length: kind.weight }, () => kind));
  let bag: FaultKind[] = [];
  for (let atMs = everyMs * luck.between(0.5, 1.5); atMs < durationMs; atMs += everyMs * luck.between(0.5, 1.5)) {
    if (bag.length === 0) bag = luck.shuffled(round);
    const next = bag.pop() as FaultKind;
    plan.push({
      atMs: Math.round(atMs),
      kind: next.kind,
      lastsMs: Math.round(luck.between(...next.lastsMs)),
      luck: [luck.next(), luck.next(), luck.next()],
    });
  }
  return plan;
}
