import type { OverrideState } from './protocol';

/**
 * The version of the limits file that has set what has no end; `undefined` if no file has. While a capacity has an end, `before` contains that
 * version.
 */
export function versionInForce(
  override: Pick<OverrideState, 'fileVersion' | 'before'> | undefined,
): number | undefined {
  return override?.before?.fileVersion ?? override?.fileVersion;
}
