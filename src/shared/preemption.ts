import type { Duration, Priority } from '@temporalio/common';
import { refuse } from './invalid-options';
import type { PreemptionTerms } from './preemption-protocol';

/** How a holder gives way to waiters of higher priority. The idea is that of gen-lock, and of the Kubernetes scheduler. */
export interface PreemptibleOptions {
  /**
   * How long the holder may keep the permit after it was told to give way; at most the lease. The permit ends then, whatever the
   * holder does. The server's timers may be up to a second late.
   */
  grace: Duration;
  /**
   * The holder gives way at its own safe points, by `permit.checkpoint()`. So neither its scope is cancelled nor its `signal`
   * aborts before the grace ends.
   * @default false
   */
  atCheckpoints?: boolean;
}

/** The part of the options of one acquire that concerns pre-emption. Not for sets, and not for several permits of a resource. */
export interface PreemptionOptions {
  /**
   * Lets a waiter take this permit that has a strictly higher priority and asks with `preempt`. It needs a
   * `priority.priorityKey`: only waiters with a smaller number can take it. See `docs/preemption.md`.
   * @default nobody can
   */
  preemptible?: PreemptibleOptions;
  /**
   * While this acquire waits, a holder of lower priority that is `preemptible` is asked to give way: of those whose slots it would
   * take, the one of the lowest priority, and of equals the youngest. It needs a `priority.priorityKey`, and a wait.
   * @default false
   */
  preempt?: boolean;
}

/**
 * What `withPermit` does with a function whose permit was pre-empted:
 * - `'reject'`: it throws `PermitPreemptedError`;
 * - `'restart'`: it lines up again with the old place, and runs the function anew;
 * - `{ replace: fn }`: it lines up again with the old place, and runs `fn` instead, also if that is pre-empted.
 *
 * @default 'reject'
 */
export type OnPreempted<Permit, Result> = 'reject' | 'restart' | { replace: (permit: Permit) => Promise<Result> };

/** Checked {@link PreemptionOptions}. */
export interface ResolvedPreemption {
  readonly preemptible: (PreemptionTerms & { readonly atCheckpoints: boolean }) | undefined;
  readonly preempt: boolean;
}

/** What else stands in the options. */
interface Beside {
  priority: Priority | undefined;
  timeoutMs: number;
  key: unknown;
  permits: unknown;
  graceMs: number | undefined;
}

/** Checks the options. @throws InvalidOptionsError */
export function resolvePreemption(options: PreemptionOptions, beside: Beside): ResolvedPreemption {
  const { preemptible, preempt = false } = options;
  if (typeof preempt !== 'boolean') refuse('preempt', 'a boolean', preempt);
  if (preempt) {
    checkAlone('preempt', beside);
    if (beside.timeoutMs === 0) refuse('preempt', 'none where the caller does not wait (a timeout of 0)', preempt);
  }
  const priorityKey = preempt || preemptible ? priorityKeyFor(preempt ? 'preempt' : 'preemptible', beside.priority) : 0;
  if (preemptible === undefined) return { preempt, preemptible };
  checkAlone('preemptible', beside);
  if (typeof preemptible !== 'object' || beside.graceMs === undefined) {
    refuse('preemptible', 'an object such as { grace: "30s" }', preemptible);
  }
  const { atCheckpoints = false } = preemptible;
  if (typeof atCheckpoints !== 'boolean') refuse('preemptible.atCheckpoints', 'a boolean', atCheckpoints);
  return { preempt, preemptible: { graceMs: beside.graceMs, priorityKey, atCheckpoints } };
}

/** Where the semaphore is known. @throws InvalidOptionsError */
export function checkGrace(
  { preemptible }: ResolvedPreemption,
  { leaseMs, paceMs }: { leaseMs: number; paceMs: number | undefined },
): void {
  if (!preemptible) return;
  if (paceMs !== undefined) refuse('preemptible', 'none where a pace keeps the slot', preemptible);
  if (preemptible.graceMs > leaseMs) {
    refuse('preemptible.grace', `at most the lease (${leaseMs} ms)`, preemptible.graceMs);
  }
}

/** Where several permits are acquired as one. @throws InvalidOptionsError */
export function checkNoPreemption({ preemptible, preempt }: Partial<ResolvedPreemption>): void {
  if (preemptible) refuse('preemptible', 'none: a set of permits is not pre-empted', 'one');
  if (preempt) refuse('preempt', 'none: a set of permits does not pre-empt', preempt);
}

/** Checks what `withPermit` is to do with a pre-empted function. @throws InvalidOptionsError */
export function resolveOnPreempted<Permit, Result>(
  onPreempted: OnPreempted<Permit, Result> | undefined,
  { preemptible }: ResolvedPreemption,
): OnPreempted<Permit, Result> {
  if (onPreempted === undefined) return 'reject';
  if (!preemptible) refuse('onPreempted', 'none without preemptible', onPreempted);
  if (onPreempted === 'reject' || onPreempted === 'restart') return onPreempted;
  // A text has a `replace` too.
  if (typeof onPreempted === 'object' && typeof onPreempted?.replace === 'function') return onPreempted;
  return refuse('onPreempted', '"reject", "restart" or { replace: fn }', onPreempted);
}

/** How a holder that has given its permit up waits for the next: also where it did not wait at first, and however long the line is. */
export function waitingAgain({ timeoutMs }: { timeoutMs: number }) {
  return { timeoutMs: timeoutMs || Number.POSITIVE_INFINITY, maxWaiting: undefined, attempts: undefined };
}

function checkAlone(what: string, { key, permits }: { key: unknown; permits: unknown }): void {
  if (key !== undefined) refuse(what, 'none together with key', key);
  if (permits !== undefined) refuse(what, 'none together with permits', permits);
}

/** A priority that is inherited, or Temporal's default, would decide by accident whose work is thrown away. */
function priorityKeyFor(what: string, priority: Priority | undefined): number {
  return priority?.priorityKey || refuse(what, 'a priority.priorityKey beside it', priority?.priorityKey);
}
