import { readFileSync } from 'node:fs';
import { InvalidOptionsError } from '../shared/check';
import type { LimitsFile } from './limit';
import { readLimitsFile } from './limits-file';

/** @throws InvalidOptionsError that says why the file can't be read, or names each mistake in it */
export function limitsFileAt(path: string): LimitsFile {
  return readLimitsFile(textAt(path), path);
}

/** @throws InvalidOptionsError */
export function textAt(path: string): string {
  let bytes: Buffer;
  try {
    bytes = readFileSync(path);
  } catch (error) {
    throw new InvalidOptionsError(`The file "${path}" can't be read (${(error as NodeJS.ErrnoException).code}).`);
  }
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw new InvalidOptionsError(`The file "${path}" is not text in UTF-8.`);
  }
}
