import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { bundleWorkflowCode, DefaultLogger } from '@temporalio/worker';
import { prebuiltBundle } from '@/worker/prebuilt-bundle';

const LIB = join(__dirname, '..', 'lib');

/** The last step of `pnpm build`: bundles the compiled permit Workflows, so that a permit worker starts without webpack. */
async function main(): Promise<void> {
  const { code } = await bundleWorkflowCode({
    workflowsPath: join(LIB, 'workflow.js'),
    logger: new DefaultLogger('WARN'),
    // Stack traces still say file and line. Without the sources the bundle is half as big, and with plain paths it is
    // the same wherever it was built.
    webpackConfigHook: (config) => ({
      ...config,
      devtool: 'inline-nosources-source-map',
      output: { ...config.output, devtoolModuleFilenameTemplate: '[resource-path]' },
    }),
  });
  await writeFile(prebuiltBundle(LIB), code);
}

main().catch((error: unknown) => {
  console.error(error);
  process.exitCode = 1;
});
