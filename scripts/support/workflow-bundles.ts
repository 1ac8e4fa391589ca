import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type BundleOptions, bundleWorkflowCode, DefaultLogger, type WorkflowBundle } from '@temporalio/worker';
import { PREPARED_BUNDLES } from './prepared';

const SRC = join(__dirname, '..', '..', 'src');

/**
 * Bundles a file of Workflows, which takes seconds of work, unless `pnpm test` has done that already. It may export `interceptors` too.
 * @param workflowsPath as `require.resolve` gives it
 */
export async function bundleWorkflows(workflowsPath: string): Promise<WorkflowBundle> {
  const prepared = process.env[PREPARED_BUNDLES];
  const made = prepared && bundleFile(prepared, workflowsPath);
  if (made && existsSync(made)) return { code: await readFile(made, 'utf8') };
  return await bundle(workflowsPath);
}

/** Bundles an example's Workflows, which import this package by its name, as a user's do. */
export async function bundleExample(
  options: Omit<BundleOptions, 'logger' | 'webpackConfigHook'>,
): Promise<WorkflowBundle> {
  return await bundleWorkflowCode({
    ...options,
    logger: new DefaultLogger('ERROR'),
    webpackConfigHook: (config) => {
      const alias = { ...(config.resolve?.alias as Record<string, string>), 'temporal-semaphore': SRC };
      return { ...config, resolve: { ...config.resolve, alias } };
    },
  });
}

/** Bundles a file of Workflows into another file. */
export async function writeBundle(workflowsPath: string, file: string): Promise<void> {
  const { code } = await bundle(workflowsPath);
  await writeFile(file, code);
}

async function bundle(workflowsPath: string): Promise<WorkflowBundle & { code: string }> {
  const logger = new DefaultLogger('ERROR');
  return await bundleWorkflowCode({ workflowsPath, workflowInterceptorModules: [workflowsPath], logger });
}

/** Where the bundle of these Workflows lies in a directory of bundles. */
export function bundleFile(directory: string, workflowsPath: string): string {
  return join(directory, `${createHash('sha256').update(workflowsPath).digest('hex').slice(0, 16)}.workflows.js`);
}
