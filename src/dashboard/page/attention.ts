import type { ResourceView, SearchView } from '../page-protocol';

/** A younger permit may not have run yet, so that its lease is unknown. */
const YOUNG_MS = 10_000;

/**
 * The resource that most needs attention: one with a problem, otherwise the resource with the most waiters, otherwise the resource of which most
 * is held. Of equals, the first. A resource of which nothing is known yet comes last.
 */
export function neediest(views: readonly ResourceView[], nowMs: number): ResourceView | undefined {
  const [first, ...others] = views;
  return (
    first && others.reduce((best, view) => (compare(needs(view, nowMs), needs(best, nowMs)) > 0 ? view : best), first)
  );
}

/** Whether every resource is known by now, or why it is not. */
export function allKnown(views: readonly ResourceView[], { done, problem }: SearchView): boolean {
  return (done || problem !== undefined) && views.every(({ head }) => head.ready || head.problem !== undefined);
}

/** In the order in which they count. */
function needs(view: ResourceView, nowMs: number): number[] {
  const { ready, waiting = 0, held } = view.head;
  return [hasProblem(view, nowMs) ? 1 : 0, ready ? waiting : 0, ready ? held : -1];
}

function hasProblem({ head, slots }: ResourceView, nowMs: number): boolean {
  if (head.problem !== undefined || head.disagreement || head.strangers || head.paused) return true;
  if (!head.ready) return false;
  return (
    head.queue === 'silent' ||
    slots.some(({ state, permit }) => {
      if (state !== 'held' || !permit || permit.sinceMs > nowMs - YOUNG_MS) return false;
      if (permit.leaseSpared) return false;
      return permit.leaseDeadlineMs === undefined || permit.leaseDeadlineMs < nowMs - YOUNG_MS;
    })
  );
}

function compare(some: number[], others: number[]): number {
  const index = some.findIndex((need, place) => need !== others[place]);
  return index < 0 ? 0 : (some[index] ?? 0) - (others[index] ?? 0);
}
