import { chromiumIsThere, NO_CHROMIUM } from '../../test/support/chromium';
import { postgresIsThere } from './postgres/binaries';
import { NO_POSTGRES } from './postgres/process';
import { leftOut, type Need } from './requirements';
import { mentions } from './test-files';

/**
 * Lists, all at once, what these test files need and this machine lacks, and which tests are left out for it.
 * @returns whether they can be run; in CI only where nothing is left out
 */
export async function preflight(files: readonly string[]): Promise<boolean> {
  const some = (pattern: RegExp) => files.some((file) => mentions(file, pattern));
  const missing: string[] = [];
  if (some(/postgres/i) && !(await postgresIsThere())) missing.push(NO_POSTGRES);
  if (some(/useBrowser|startChromium/) && !chromiumIsThere()) missing.push(NO_CHROMIUM);
  const ci = Boolean(process.env.CI);
  const out = leftOut((need: Need) => some(new RegExp(`'${need}'`))).map((tests) =>
    ci ? `Missing in CI, where nothing is left out: ${tests}` : `Left out: ${tests}`,
  );
  for (const line of [...missing, ...out]) console.error(line);
  return missing.length === 0 && !(ci && out.length > 0);
}
