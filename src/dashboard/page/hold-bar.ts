import type { HoldView } from '../page-protocol';

/** What has become of a hold. Each has a colour of its own in `timeline.css`, and a word in the legend. */
export const HOLD_KINDS = {
  held: 'held now',
  released: 'released',
  'gave-way': 'gave way',
  'cut-short': 'cut short',
  drained: 'out of use',
} as const;

export type HoldKind = keyof typeof HOLD_KINDS;

export function kindOf({
  drained,
  toMs,
  outcome = 'released',
}: Pick<HoldView, 'drained' | 'toMs' | 'outcome'>): HoldKind {
  if (drained) return 'drained';
  if (toMs === undefined) return 'held';
  if (outcome === 'preempted') return 'gave-way';
  return outcome === 'released' || outcome === 'unknown' ? 'released' : 'cut-short';
}

/** The part of a hold that lies in the window, so that its label begins where one can see it. `undefined` when none does. */
export function visiblePart(
  { fromMs, toMs }: Pick<HoldView, 'fromMs' | 'toMs'>,
  window: { fromMs: number; toMs: number },
): { fromMs: number; toMs: number; isBegun: boolean } | undefined {
  const endMs = toMs ?? window.toMs;
  if (endMs < window.fromMs) return undefined;
  return { fromMs: Math.max(fromMs, window.fromMs), toMs: endMs, isBegun: fromMs < window.fromMs };
}
