import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { DataConverter } from '@temporalio/common';
import { InvalidOptionsError } from '../client';

/** Loads what a user's own clients and workers have, such as a payload codec that encrypts. */
export async function loadDataConverter(path: string | undefined): Promise<DataConverter | undefined> {
  if (path === undefined) return undefined;
  const expected = '--data-converter: expected a module that exports "dataConverter"';
  let loaded: { dataConverter?: DataConverter; default?: { dataConverter?: DataConverter } };
  try {
    loaded = await import(pathToFileURL(resolve(path)).href);
  } catch (error) {
    throw new InvalidOptionsError(`${expected}, and "${path}" can't be loaded`, { cause: error });
  }
  // A CommonJS module's exports are not always seen by name.
  const converter = loaded.dataConverter ?? loaded.default?.dataConverter;
  if (typeof converter !== 'object' || converter === null) throw new InvalidOptionsError(`${expected}, got "${path}"`);
  return converter;
}
