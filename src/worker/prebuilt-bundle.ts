import { join } from 'node:path';
import { version } from '@temporalio/worker/package.json';

/**
 * The file, in the built package, that has the permit Workflows bundled already. A bundle runs only on the very version
 * of the SDK that made it, so that version stands in the name: where another one is installed, there is no such file.
 *
 * @param directory the package's `lib`
 */
export function prebuiltBundle(directory: string): string {
  return join(directory, `permit-workflows.sdk-${version}.js`);
}
