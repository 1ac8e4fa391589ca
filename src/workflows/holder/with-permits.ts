import { type AcquireOptions, resolveAcquire } from '../../shared/options';
import { checkSetOptions, type PermitsOf, type SetEntry, wantedOf } from '../../shared/permit-set';
import { checked } from '../errors';
import type { Permit } from './permit';
import { acquireSet, type PermitSet, underSet } from './permit-set';
import { Semaphore } from './semaphore';

/** What concerns one resource stands in its entry. */
type SetOptions = Omit<AcquireOptions, 'key' | 'permits'>;

/**
 * Runs `fn` under permits of several resources: acquires them as {@link acquireAll} does, renews them while `fn` runs, and
 * releases them when `fn` returns, throws or is cancelled. When one is lost, this cancels the scope in which `fn` runs. Each
 * permit has its own token: pass to a resource the token of the permit that protects it.
 *
 * @throws PermitLostError that names the lost permit, whatever `fn` returned or threw
 * @throws PermitTimeoutError that names the resource without a free permit; `fn` has not run then
 *
 * @example
 * ```ts
 * const gpus = new Semaphore('gpu-pool', { capacity: 3 });
 * const licences = new Semaphore('licences', { capacity: 5 });
 *
 * export async function simulate(model: string): Promise<string> {
 *   return await withPermits([gpus, licences], async ([gpu, licence]) => run(model, gpu.slot, licence.slot));
 * }
 * ```
 */
export async function withPermits<const Entries extends readonly SetEntry<Semaphore>[], T>(
  entries: Entries,
  fn: (permits: PermitsOf<Entries, Permit>) => Promise<T>,
  options?: SetOptions,
): Promise<T> {
  const { wanted, request } = resolve(entries, options);
  return await underSet(wanted, request, (permits) => fn(permits as unknown as PermitsOf<Entries, Permit>));
}

/**
 * Acquires a permit of each resource: all, or none. All callers claim in one order, by the bytes of the resources' names
 * (a key's pool before its resource), whatever order they write. So no two of them can block each other for ever. While this waits for one permit, it renews those
 * that it holds already. The `timeout` covers all of them together, and the caller keeps its age in every line.
 *
 * The caller must then renew and release them; prefer {@link withPermits}. On return, each was renewed less than `renewEvery` ago.
 *
 * Not guaranteed: freedom from deadlock with callers that nest `withPermit` by hand in another order.
 *
 * @throws PermitTimeoutError that names the resource without a free permit; nothing is held then
 * @throws PermitLostError when one was lost during the wait for another; nothing is held then
 * @throws CancelledFailure when the current scope is cancelled; nothing is held then
 * @throws ApplicationFailure of type `InvalidOptionsError`, also when a resource comes twice
 */
export async function acquireAll<const Entries extends readonly SetEntry<Semaphore>[]>(
  entries: Entries,
  options?: SetOptions,
): Promise<PermitSet<PermitsOf<Entries, Permit>>> {
  const { wanted, request } = resolve(entries, options);
  return (await acquireSet(wanted, request)) as unknown as PermitSet<PermitsOf<Entries, Permit>>;
}

function resolve(entries: readonly SetEntry<Semaphore>[], options: SetOptions | undefined) {
  return checked(() => {
    const wanted = wantedOf(entries, (of) => (of instanceof Semaphore ? of.options : undefined));
    const request = resolveAcquire(options);
    checkSetOptions(request);
    return { wanted, request };
  });
}
