import type { Priority } from '@temporalio/common';
import { checkOptions, refuse, saying } from './check';
import { ACQUIRE_CHECKS, type ResolvedSemaphore, resolveAcquire, type SemaphoreOptions } from './options';
import { DEFAULT_PRIORITY_KEY } from './priority';
import { OUR_WORKFLOWS, type SlotsMark } from './protocol';

/** A semaphore that an application declares once, for all code that uses it, such as a `Semaphore` of `temporal-semaphore/workflow`. */
export interface DeclaredSemaphore {
  /** The name of the shared thing. */
  readonly resource: string;
  /** @internal The options as the application wrote them: each side fills in its own defaults. */
  readonly declared: SemaphoreOptions;
  /** @internal */
  readonly options: ResolvedSemaphore;
}

/** How the runs of one type are limited: by which semaphore, for whom, and how they wait. */
export interface Limit<Args extends unknown[] = never[]> {
  /** The semaphore of which each run needs a permit, from its start to its end. */
  semaphore: DeclaredSemaphore;
  /**
   * Returns the key of the permit from the arguments of the run, if the semaphore has a limit `perKey`. It must return the same key for the
   * same arguments.
   */
  key?: ((...args: Args) => string) | undefined;
  /**
   * The rank among the waiting runs; or a function of the run's arguments that returns the same rank for the same arguments.
   * @default the run's own
   */
  priority?: Priority | ((...args: Args) => Priority | undefined) | undefined;
}

/** An arbitrary key and priority, to check the options that need them. */
const SOME_KEY = 'key';
const SOME_PRIORITY: Priority = { priorityKey: DEFAULT_PRIORITY_KEY };

/**
 * Checks the limits of Workflow types.
 * @throws InvalidOptionsError that names the type, what was expected and what was given
 */
export function checkWorkflowLimits(limits: unknown): void {
  for (const [type, limit] of entriesOf('workflows', limits)) {
    // The permit Workflows run the permits: if they were limited, they would wait for themselves.
    if (OUR_WORKFLOWS.includes(type)) refuse('workflows', 'your own Workflows', type);
    ofType(type, () => checkWorkflowLimit(limit));
  }
}

function checkWorkflowLimit(limit: unknown): void {
  const { semaphore, key, priority, patch, ...acquire } = readLimit(limit) as Limit & { patch?: unknown };
  if (patch !== undefined && typeof patch !== 'boolean') refuse('patch', 'a boolean', patch);
  resolveAcquire(semaphore.options, { ...acquire, priority: sampleOf(priority), ...(key && { key: SOME_KEY }) });
}

/** The priority to check now. What a function of the arguments returns is checked when a run asks. */
function sampleOf(priority: Limit['priority']): Priority | undefined {
  return typeof priority === 'function' ? SOME_PRIORITY : priority;
}

/** Checks the limit of one type of activity. @throws InvalidOptionsError */
export function checkActivityLimit(type: string, limit: unknown): void {
  ofType(type, () => {
    const { semaphore: _semaphore, key: _key, priority, ...rest } = readLimit(limit);
    checkOptions({ ...rest, priority: sampleOf(priority) }, { priority: ACQUIRE_CHECKS.priority });
  });
}

/** An object of limits by type. @throws InvalidOptionsError */
export function entriesOf(what: string, limits: unknown): [type: string, limit: unknown][] {
  if (typeof limits !== 'object' || limits === null) refuse(what, 'an object of limits by type', limits);
  return Object.entries(limits).filter(([, limit]) => limit !== undefined);
}

function readLimit(limit: unknown): Limit {
  if (typeof limit !== 'object' || limit === null) refuse('limit', 'an object such as { semaphore }', limit);
  const { semaphore, key } = limit as Partial<Limit>;
  if (!semaphore?.options?.slots) refuse('semaphore', 'a Semaphore of temporal-semaphore/workflow', typeof semaphore);
  if (key !== undefined && typeof key !== 'function') refuse('key', 'a function of the arguments', key);
  const { perKey } = semaphore.options;
  if (key && perKey === undefined) refuse('key', 'none: its semaphore has no perKey', 'a function');
  if (!key && perKey !== undefined) refuse('key', 'a function of the arguments: its semaphore has perKey', key);
  return limit as Limit;
}

function ofType<T>(type: string, check: () => T): T {
  return saying(`The limit of "${type}": `, check);
}

/** Two declarations of one resource that differ would not limit it. @throws InvalidOptionsError that names the resource */
export function checkAgreement(semaphores: Iterable<DeclaredSemaphore>): void {
  const first = new Map<string, string>();
  for (const { resource, options } of semaphores) {
    const terms = termsOf(options);
    const known = first.get(resource) ?? terms;
    if (known !== terms) refuse(`semaphore "${resource}"`, `one declaration of it for all limits, ${known}`, terms);
    first.set(resource, terms);
  }
}

/** The message for a caller that has a slot which another caller lacks. @param others the mark of the other caller's slots */
export function disagreementMessage({ resource, mark }: ResolvedSemaphore, others: SlotsMark): string {
  return (
    `Callers of "${resource}" disagree on its slots: this caller has ${mark}, another caller has ${others}. So more permits can be held ` +
    `than the other caller expects. Give all callers the same slots; "temporal-semaphore ls ${resource}" shows who differs.`
  );
}

/** What all acquirers of a resource must agree on. */
function termsOf({ mark, perKey, paceMs, unpaced }: ResolvedSemaphore): string {
  return JSON.stringify({ slots: mark, perKey, paceMs, unpaced });
}

/** How a Workflow bundle describes its limits, by type: a comparison shows whether two files of limits differ. */
export function describeLimits(limits: object): Record<string, string> {
  const described = entriesOf('workflows', limits).map(([type, limit]) => {
    const { semaphore } = limit as Limit;
    return [type, `${semaphore.resource} ${termsOf(semaphore.options)}`];
  });
  return Object.fromEntries(described);
}
