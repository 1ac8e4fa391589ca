import assert from 'node:assert';
import { AsyncLocalStorage } from 'node:async_hooks';
import { createContext, Script } from 'node:vm';
import { refuse } from '../shared/check';
import { type DeclaredSemaphore, describeLimits } from '../shared/declared-limits';
import { OUR_WORKFLOWS } from '../shared/protocol';
import type { LimitInterceptors, WorkflowLimits } from '../workflows/holder/limit-workflows';

/** The contents of a Workflow bundle. A part that its code does not let us read is `undefined`. */
export interface BundleContents {
  /** The names of its Workflows. */
  workflows: readonly string[] | undefined;
  /** What its modules of interceptors limit, by type. */
  limits: Record<string, string> | undefined;
}

/**
 * Loads a Workflow bundle as the SDK does, in a context of its own, and looks what it exports. It runs no Workflow. Code that can be loaded
 * in a Workflow alone keeps its part unknown.
 */
export function readBundle(code: string): BundleContents {
  const silent = () => undefined;
  const context = createContext({
    AbortController,
    AsyncLocalStorage,
    TextDecoder,
    TextEncoder,
    URL,
    URLSearchParams,
    assert,
    console: { debug: silent, error: silent, info: silent, log: silent, warn: silent },
    __webpack_module_cache__: {},
  });
  const run = <T>(source: string): T | undefined => {
    try {
      return new Script(source).runInContext(context) as T;
    } catch {
      return undefined;
    }
  };
  run(SYMBOLS);
  run(code);
  const modules = run<{ interceptors?: Partial<LimitInterceptors> }[]>('__TEMPORAL__.importInterceptors()');
  const workflows = run<object>('__TEMPORAL__.importWorkflows()');
  return {
    limits: modules && Object.assign({}, ...modules.map(({ interceptors }) => interceptors?.limits)),
    workflows: workflows && namesOf(workflows),
  };
}

/** Node 20 has them under other names. */
const SYMBOLS = `
  for (const name of ['dispose', 'asyncDispose']) {
    if (typeof Symbol[name] !== 'symbol') Object.defineProperty(Symbol, name, { value: Symbol.for('nodejs.' + name) });
  }`;

/** The names of the Workflows; `undefined` if a default Workflow takes every other name. */
function namesOf(workflows: object): string[] | undefined {
  const functions = Object.entries(workflows).flatMap(([name, value]) => (typeof value === 'function' ? name : []));
  return functions.includes('default') ? undefined : functions;
}

/**
 * Checks that a bundle has the Workflows, and limits them as the plugin was told. It may limit more: workers share a file of limits.
 * @param taskQueue the worker's own, if it is known
 * @throws InvalidOptionsError
 */
export function checkBundle(code: string, wanted: WorkflowLimits, taskQueue?: string): void {
  const { limits, workflows } = readBundle(code);
  checkLimits(describeLimits(wanted), limits);
  if (!workflows) return;
  for (const type of Object.keys(wanted)) {
    if (!workflows.includes(type)) {
      refuse('workflows', `types of this worker's Workflows (${shown(workflows)})`, type);
    }
  }
  for (const { semaphore } of Object.values(wanted) as { semaphore: DeclaredSemaphore }[]) {
    if (semaphore.options.taskQueue !== taskQueue) continue;
    const missing = OUR_WORKFLOWS.filter((name) => !workflows.includes(name));
    if (missing.length === 0) continue;
    refuse(
      `semaphore "${semaphore.resource}"`,
      'another task queue than your worker\'s; or, in your Workflows file, export * from "temporal-semaphore/workflows"',
      `taskQueue "${taskQueue}", and Workflows without ${missing.join(', ')}`,
    );
  }
}

function checkLimits(wanted: Record<string, string>, found: Record<string, string> | undefined): void {
  if (!found) return;
  for (const [type, limit] of Object.entries(wanted)) {
    if (limit === found[type]) continue;
    if (Object.keys(found).length === 0) {
      refuse(
        'limitsPath',
        'the path of your module that exports interceptors = limitWorkflows(…); a prebuilt bundle needs that module too',
        'a Workflow bundle without limits',
      );
    }
    refuse(
      `workflows.${type}`,
      `the limit that the Workflow bundle has (${found[type] ?? 'none'}); if the bundle is old, bundle again`,
      limit,
    );
  }
}

const MOST_SHOWN = 20;

function shown(names: readonly string[]): string {
  return names.length <= MOST_SHOWN ? names.join(', ') : `${names.slice(0, MOST_SHOWN).join(', ')}, …`;
}
