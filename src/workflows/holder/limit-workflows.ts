import {
  ApplicationFailure,
  type ContinueAsNewInput,
  defaultPayloadConverter,
  type Headers,
  setCurrentDetails,
  type WorkflowExecuteInput,
  type WorkflowInterceptors,
  workflowInfo,
} from '@temporalio/workflow';
import { checkWorkflowLimits, describeLimits, type Limit } from '../../shared/declared-limits';
import type { AcquireOptions } from '../../shared/options';
import type { PermitRef } from '../../shared/protocol';
import { MAX_SLOTS } from '../../shared/slots';
import { LineFullError, PermitLostError, PermitTimeoutError } from '../errors';
import { marked } from './options-of-run';
import type { Permit } from './permit';
import { Semaphore } from './semaphore';

/** How the Workflows of one type are limited. */
export interface WorkflowLimit<Args extends unknown[] = never[]>
  extends Limit<Args>,
    Omit<AcquireOptions, 'key' | 'priority'> {
  semaphore: Semaphore;
  /**
   * Hands the permit over to the next run when the Workflow continues as new. The price: when a run is terminated or times out, its
   * slot stays taken until the lease ends. And the last run releases the permit before it ends: a signal that comes meanwhile, after its
   * function has returned, is lost. It can't be combined with a `key`.
   * @default false: the permit ends with the run, and the next run lines up
   */
  outlivesRun?: boolean | undefined;
  /**
   * Marks in the history of each run, with `patched`, that the run is limited, and by how many slots. So Workflows that began before their
   * type was limited go on without a limit, and those that began under another `capacity` go on under that capacity. The marker is two events.
   * `false` saves them, for a type that was limited from the start; another `capacity` then needs the semaphore's `before`.
   * @default true
   */
  patch?: boolean | undefined;
}

/**
 * The limits of Workflows, by type. With the type of a module of Workflows, the names and the arguments of `key` are checked.
 */
export type WorkflowLimits<Workflows = AnyWorkflows> = {
  readonly [Type in keyof Workflows]?: Workflows[Type] extends (...args: infer Args) => Promise<unknown>
    ? WorkflowLimit<Args> | undefined
    : never;
};

// biome-ignore lint/suspicious/noExplicitAny: any function can be a Workflow
type AnyWorkflows = Record<string, (...args: any[]) => Promise<unknown>>;

/** What a module of limits exports as `interceptors`: see {@link limitWorkflows}. */
export interface LimitInterceptors {
  (): WorkflowInterceptors;
  /** @internal What is limited, for the plugin of the worker to compare. */
  readonly limits: Record<string, string>;
}

/** Names a permit in the headers of the next run. */
const PERMIT_HEADER = 'temporal-semaphore-permit';

/**
 * Limits how many Workflows of a type run at once, without a change to their code: a run waits for a permit before its function is called,
 * and holds the permit until it ends, as soon as the function has returned or thrown. Your module exports what this returns as `interceptors`,
 * and `SemaphorePlugin` of `temporal-semaphore/worker` adds the module to the Workflow bundle.
 *
 * A run waits with the `priority` of its own Workflow, unless the limit says otherwise. While it waits, its current details
 * say for what and since when. Signals that come meanwhile wait for the function; queries and updates find no handler.
 *
 * When its permit is lost or pre-empted, the scope of the function is cancelled, and the run fails with `PermitLostError`; if it waits
 * too long, with `PermitTimeoutError`; if too many callers wait, with `LineFullError`. These failures are retryable, so the Workflow's retry
 * policy decides, except for a `LineFullError` that is `superseded`.
 *
 * @throws InvalidOptionsError that names the type, what was expected and what was given
 *
 * @example
 * ```ts
 * const gpus = new Semaphore('gpus', { capacity: 20, perKey: 2 });
 *
 * export const interceptors = limitWorkflows<typeof import('./workflows')>({
 *   trainModel: { semaphore: gpus, key: (model) => model, timeout: '1 day' },
 * });
 * ```
 */
export function limitWorkflows<Workflows = AnyWorkflows>(
  limits: NoInfer<WorkflowLimits<Workflows>>,
): LimitInterceptors {
  checkWorkflowLimits(limits);
  const byType = new Map(Object.entries<WorkflowLimit | undefined>(limits));
  const factory = (): WorkflowInterceptors => {
    const limit = byType.get(workflowInfo().workflowType);
    if (!limit) return {};
    const run = new LimitedRun(limit, (nextType) => byType.get(nextType) === limit);
    return {
      inbound: [{ execute: (input, next) => run.execute(input, next) }],
      outbound: limit.outlivesRun ? [{ continueAsNew: (input, next) => run.continueAsNew(input, next) }] : [],
    };
  };
  return Object.assign(factory, { limits: describeLimits(limits) });
}

/** One run of a limited Workflow. */
class LimitedRun {
  /** The permit, while the function runs. */
  private permit: Permit | undefined;
  private hasBegun = false;
  /** The error that the function has thrown: the run fails as it would without a limit. */
  private thrown: { error: unknown } | undefined;

  constructor(
    private readonly limit: WorkflowLimit,
    /** Whether a run of that type has the same limit. */
    private readonly isOfLimit: (type: string) => boolean,
  ) {}

  async execute(
    input: WorkflowExecuteInput,
    next: (input: WorkflowExecuteInput) => Promise<unknown>,
  ): Promise<unknown> {
    const semaphore = semaphoreOfRun(this.limit);
    if (!semaphore) return await next(input);
    const { semaphore: _semaphore, key: keyOf, priority: rank, patch: _patch, ...given } = this.limit;
    const key = keyOf && ofArguments('key', keyOf, input.args);
    const priority = typeof rank === 'function' ? ofArguments('priority', rank, input.args) : rank;
    const acquire = { ...given, priority };
    const runUnder = (adopt?: PermitRef) =>
      semaphore.withPermit((permit) => this.runFunction(permit, () => next(input)), {
        ...acquire,
        key,
        adopt,
        isWholeRun: true,
      });
    setCurrentDetails(waitingFor(semaphore.resource, key));
    try {
      const ref = handedOver(input.headers);
      if (!ref) return await runUnder();
      return await runUnder(ref).catch((error: unknown) => {
        // The permit that was handed over has ended meanwhile; a run that is retried has the headers of the first attempt.
        if (error instanceof PermitLostError && !this.hasBegun) return runUnder();
        throw error;
      });
    } catch (error) {
      throw this.thrown?.error === error ? error : retryable(error);
    }
  }

  async continueAsNew(input: ContinueAsNewInput, next: (input: ContinueAsNewInput) => Promise<never>): Promise<never> {
    if (!this.permit?.isHeld || !this.isOfLimit(input.options.workflowType)) return await next(input);
    const ref = defaultPayloadConverter.toPayload(this.permit.detach());
    return await next({ ...input, headers: { ...input.headers, [PERMIT_HEADER]: ref } });
  }

  private async runFunction(permit: Permit, run: () => Promise<unknown>): Promise<unknown> {
    this.permit = permit;
    this.hasBegun = true;
    setCurrentDetails('');
    try {
      return await run();
    } catch (error) {
      this.thrown = { error };
      throw error;
    }
  }
}

/**
 * The semaphore that limits this run, with the capacity of its marker if that differs. `undefined` for a run that began before
 * its type was limited: it has no marker.
 */
function semaphoreOfRun({ semaphore, patch = true }: WorkflowLimit): Semaphore | undefined {
  if (!patch || marked(semaphore.options)) return semaphore;
  if (!workflowInfo().unsafe.isReplaying) return undefined; // the worker's own `patchActivationCallback` says so
  const { slots: _slots, before: _before, ...declared } = semaphore.declared;
  for (let capacity = 1; capacity <= MAX_SLOTS; capacity++) {
    if (marked({ ...semaphore.options, before: [], mark: capacity })) {
      return new Semaphore(semaphore.resource, { ...declared, capacity });
    }
  }
  return undefined;
}

/** What a function of the limit returns for the arguments of the run. */
function ofArguments<T>(what: string, of: (...args: never[]) => T, args: unknown[]): T {
  try {
    return of(...(args as never[]));
  } catch (error) {
    // A plain error would fail the Workflow Task again and again.
    const message = `${what}: the function of the limit threw ${error}`;
    throw ApplicationFailure.create({ type: 'InvalidOptionsError', message, nonRetryable: true });
  }
}

/** The run's current details, which Temporal's UI shows as Markdown. They leave out its place: to update that would cost a Workflow Task each time. */
function waitingFor(resource: string, key: string | undefined): string {
  const whose = key === undefined ? '' : ` with the key \`${key}\``;
  const since = new Date().toISOString();
  const place = `\`temporal-semaphore why ${workflowInfo().workflowId}\` shows its place in the queue`;
  return `Waits for a permit of \`${resource}\`${whose} since ${since}: ${place}. Its function has not begun.`;
}

/** Makes an error retryable, so that the Workflow's retry policy decides. A superseded run stays failed: it would come back as the newest. */
function retryable(error: unknown): unknown {
  if (error instanceof LineFullError && error.superseded) return error;
  const isOurs = [PermitLostError, PermitTimeoutError, LineFullError].some((type) => error instanceof type);
  if (!isOurs) return error;
  const { message, type, details } = error as ApplicationFailure;
  return ApplicationFailure.create({ message, type: type ?? undefined, details: details ?? [], nonRetryable: false });
}

function handedOver(headers: Headers): PermitRef | undefined {
  const header = headers[PERMIT_HEADER];
  return header && defaultPayloadConverter.fromPayload<PermitRef>(header);
}
