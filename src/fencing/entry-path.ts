import { createRequire } from 'node:module';
import { basename, join } from 'node:path';

/** This very file, unless a bundler has put it into an application's. */
const OWN_FILE = /^entry-path\.[cm]?[jt]s$/;

/**
 * The path of an entry that the SDK bundles for Workflows. Where a bundler has put this code into a file of the application, the entries
 * are those of the installed package: beside that file, a file of the same name may be the user's.
 * @throws Error that says what to do when the package is not installed there
 */
export function entryPath(name: 'fencing-workflow' | 'workflows'): string {
  const file = typeof __filename === 'string' ? __filename : join(process.cwd(), 'index.js'); // a bundle may be an ES module
  if (OWN_FILE.test(basename(file))) return createRequire(file).resolve(`../${name}`);
  try {
    return createRequire(file).resolve(`temporal-semaphore/${name}`);
  } catch (error) {
    throw new Error(
      `temporal-semaphore/${name} can't be found from ${file}, into which a bundler has put this package. The SDK bundles its Workflows from the package itself: keep this package out of the bundle (esbuild --packages=external, ncc -e temporal-semaphore/worker), and install it alongside.`,
      { cause: error },
    );
  }
}
