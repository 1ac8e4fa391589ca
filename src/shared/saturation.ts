import { refuse } from './invalid-options';

/** What `withPermit` does when no slot is free. */
export interface SaturationOptions {
  /**
   * What to do when the pool has no permit to give:
   * - `wait`: wait in line, as `timeout` and `maxWaiting` say;
   * - `reject`: throw, as the acquire does. Without `timeout`, `maxWaiting` and `attempts` it tries every slot once, and does not wait;
   * - `inline`: as `reject`, but instead of throwing, run the function here and now, with `permit` undefined. For producers that may
   *   do the work themselves, which slows them down. It does not count against the capacity. The idea is that of epocxy's governor.
   * @default wait
   */
  onSaturated?: 'wait' | 'reject' | 'inline';
}

/** What an acquire does when no slot is free, checked. */
export interface ResolvedLimits {
  readonly maxWaiting: number | undefined;
  readonly attempts: number | undefined;
}

/** Checks the limits of an acquire. @throws InvalidOptionsError */
export function resolveLimits(
  { maxWaiting, attempts }: { maxWaiting?: number; attempts?: number },
  timeoutMs: number | undefined,
): ResolvedLimits {
  for (const [name, limit] of Object.entries({ maxWaiting, attempts })) {
    if (limit !== undefined && !(Number.isSafeInteger(limit) && limit >= 1))
      refuse(name, 'a whole number from 1', limit);
  }
  if (attempts !== undefined && maxWaiting !== undefined) {
    refuse('maxWaiting', 'none beside attempts, which never line up', maxWaiting);
  }
  if (attempts !== undefined && timeoutMs) refuse('timeout', 'none beside attempts, which do not wait', timeoutMs);
  return { maxWaiting, attempts };
}

/** Takes out what only `withPermit` knows, and says whether to work inline. @throws InvalidOptionsError */
export function splitSaturation<Options extends object>(
  options: Options & SaturationOptions = {} as Options,
): { inline: boolean; acquire: Options } {
  if (typeof options !== 'object' || options === null) refuse('options', 'an object', options);
  const { onSaturated = 'wait', ...rest } = options;
  if (!['wait', 'reject', 'inline'].includes(onSaturated)) {
    refuse('onSaturated', '"wait", "reject" or "inline"', onSaturated);
  }
  const acquire = rest as unknown as Options & { timeout?: unknown; maxWaiting?: unknown; attempts?: unknown };
  const { timeout, maxWaiting, attempts } = acquire;
  const waits = onSaturated === 'wait' || [timeout, maxWaiting, attempts].some((limit) => limit !== undefined);
  return { inline: onSaturated === 'inline', acquire: waits ? acquire : { ...acquire, timeout: 0 } };
}

/** Runs `fn` under a permit; or without one, if there is none to be had. */
export async function orInline<Permit, T>(
  withPermit: (fn: (permit: Permit) => Promise<T>) => Promise<T>,
  fn: (permit: Permit | undefined) => Promise<T>,
): Promise<T> {
  let hasBegun = false;
  try {
    return await withPermit(async (permit) => {
      hasBegun = true;
      return await fn(permit);
    });
  } catch (error) {
    if (hasBegun || !isSaturated(error)) throw error;
  }
  return await fn(undefined);
}

/** A server that can't be reached says nothing of the pool: the timeout then has a cause. */
function isSaturated(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  return error.name === 'LineFullError' || (error.name === 'PermitTimeoutError' && error.cause === undefined);
}

/** The message of a `LineFullError`, in Workflows and outside. */
export function lineFullMessage(resource: string, maxWaiting: number): string {
  return `No permit of "${resource}" is free, and the line is full: maxWaiting is ${maxWaiting}. Try later.`;
}
