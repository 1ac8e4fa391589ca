import { AsyncLocalStorage } from 'node:async_hooks';

const storage = new AsyncLocalStorage<string>();

/** Runs `fn` with this purpose for each permit that `fn` acquires without a purpose. */
export function withPurpose<T>(purpose: string, fn: () => T): T {
  return storage.run(purpose, fn);
}

/** What the calling code is for, if {@link withPurpose} has set it. */
export function purposeHere(): string | undefined {
  return storage.getStore();
}
