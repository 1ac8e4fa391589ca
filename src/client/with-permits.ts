import { resolveAcquire } from '../shared/options';
import { checkSetOptions, type PermitsOf, type SetEntry, wantedOf } from '../shared/permit-set';
import type { Permit } from './holder/permit';
import { acquireSet, type PermitSet, underSet } from './holder/permit-set';
import { type ClientAcquireOptions, type Request, thisMoment } from './options';
import { SemaphoreClient } from './semaphore-client';

/** The options of the whole set. Each resource's own stand in its entry. */
type SetOptions = Omit<ClientAcquireOptions, 'key' | 'permits'>;

/**
 * Runs `fn` under permits of several resources: acquires them as {@link acquireAll} does, and releases them when `fn` returns or
 * throws. When one is lost, the `signal` that `fn` gets aborts. `fn` must heed it. Each permit has its own token: pass to a
 * resource the token of the permit that protects it. A release that fails only warns, as in `withPermit`.
 *
 * @throws PermitLostError that names the lost permit, whatever `fn` returned or threw
 * @throws PermitTimeoutError that names the resource without a free permit; `fn` has not run then
 *
 * @example
 * ```ts
 * const gpus = new SemaphoreClient(client, 'gpu-pool', { capacity: 3, taskQueue: 'permits' });
 * const licences = new SemaphoreClient(client, 'licences', { capacity: 5, taskQueue: 'permits' });
 *
 * await withPermits([gpus, licences], async ([gpu, licence], signal) => {
 *   await fetch(`https://gpus.example/${gpu.slot}`, { method: 'POST', body: licence.slot, signal });
 * });
 * ```
 */
export async function withPermits<const Entries extends readonly SetEntry<SemaphoreClient>[], T>(
  entries: Entries,
  fn: (permits: PermitsOf<Entries, Permit>, signal: AbortSignal) => Promise<T>,
  options?: SetOptions,
): Promise<T> {
  const { wanted, request } = resolve(entries, options);
  return await underSet(wanted, request, (permits, signal) =>
    fn(permits as unknown as PermitsOf<Entries, Permit>, signal),
  );
}

/**
 * Acquires a permit of each resource: all, or none. All callers claim in one order, by the bytes of the resources' names
 * (a key's pool before its resource), whatever order they write. So no two of them can block each other for ever. Permits that this holds already renew themselves
 * while it waits for others. The `timeout` covers all of them together, and the caller keeps its age in every line.
 *
 * Not guaranteed: freedom from deadlock with callers that nest `withPermit` by hand in another order.
 *
 * @throws PermitTimeoutError that names the resource without a free permit; nothing is held then
 * @throws PermitLostError when one was lost during the wait for another; nothing is held then
 * @throws the reason of `signal` when that aborts; nothing is held then
 * @throws InvalidOptionsError, before any call, also when a resource comes twice
 */
export async function acquireAll<const Entries extends readonly SetEntry<SemaphoreClient>[]>(
  entries: Entries,
  options?: SetOptions,
): Promise<PermitSet<PermitsOf<Entries, Permit>>> {
  const { wanted, request } = resolve(entries, options);
  return (await acquireSet(wanted, request)) as unknown as PermitSet<PermitsOf<Entries, Permit>>;
}

function resolve(entries: readonly SetEntry<SemaphoreClient>[], options: SetOptions | undefined) {
  checkSetOptions(resolveAcquire(options));
  const since = thisMoment();
  let request: Request | undefined;
  const wanted = wantedOf(entries, (of) => {
    if (!(of instanceof SemaphoreClient)) return undefined;
    request = of.request(options, since);
    return of.poolOf(request);
  });
  return { wanted, request: request as Request };
}
