import { chromiumIsThere, NO_CHROMIUM } from './chromium';
import { postgresIsThere } from './postgres-binaries';
import { NO_POSTGRES } from './postgres-process';
import { leftOut } from './requirements';

/**
 * Lists, all at once, what is missing here, and which tests are left out for it.
 * @returns whether the tests can be run; in CI only where nothing is left out
 */
export async function preflight(): Promise<boolean> {
  const missing: string[] = [];
  if (!(await postgresIsThere())) missing.push(NO_POSTGRES);
  if (!chromiumIsThere()) missing.push(NO_CHROMIUM);
  const ci = Boolean(process.env.CI);
  const out = leftOut().map((tests) =>
    ci ? `Missing in CI, where nothing is left out: ${tests}` : `Left out: ${tests}`,
  );
  for (const line of [...missing, ...out]) console.error(line);
  return missing.length === 0 && !(ci && out.length > 0);
}
