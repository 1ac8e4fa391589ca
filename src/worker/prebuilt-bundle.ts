import { join } from 'node:path';
import { version } from '@temporalio/worker/package.json';

/**
 * The path of the prebuilt bundle of the permit Workflows in the built package. A bundle runs only on the SDK version that
 * made it, so its name has that version. With another SDK version installed, there is no such file.
 *
 * @param directory the package's `lib`
 */
export function prebuiltBundle(directory: string): string {
  return join(directory, `permit-workflows.sdk-${version}.js`);
}
