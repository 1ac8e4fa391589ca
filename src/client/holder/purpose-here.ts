import { AsyncLocalStorage } from 'node:async_hooks';

const storage = new AsyncLocalStorage<string>();

/** Runs `fn` with this as the purpose of each permit that it acquires without naming one. */
export function withPurpose<T>(purpose: string, fn: () => T): T {
  return storage.run(purpose, fn);
}

/** What the calling code is for. `undefined`: nobody has said. */
export function purposeHere(): string | undefined {
  return storage.getStore();
}
