import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { bundleWorkflowCode, DefaultLogger } from '@temporalio/worker';
import { transform } from 'esbuild';
import { PAGE_DIRECTORY, PAGE_FILES, type PageFiles } from '@/dashboard/page-files';
import { LIMITS_SCHEMA } from '@/limits/limits-schema';
import { prebuiltBundle } from '@/worker/permit-worker';
import { bundleCommandLine } from './support/bundle-command-line';
import { bundleLimitsReader } from './support/bundle-limits-reader';
import { bundlePage } from './support/bundle-page';

const LIB = join(__dirname, '..', 'lib');

/** The last step of `pnpm build`. */
async function main(): Promise<void> {
  const schema = writeFile(join(LIB, 'limits.schema.json'), `${JSON.stringify(LIMITS_SCHEMA, undefined, 2)}\n`);
  const page = await bundlePage();
  await Promise.all([bundleWorkflows(), bundleCommandLine(LIB), bundleLimitsReader(LIB), writePage(page), schema]);
}

/** Bundles the compiled permit Workflows, so that a permit worker starts without webpack. */
async function bundleWorkflows(): Promise<void> {
  const { code } = await bundleWorkflowCode({
    workflowsPath: join(LIB, 'workflows.js'),
    logger: new DefaultLogger('WARN'),
    // With plain paths the bundle is the same wherever it was built.
    webpackConfigHook: (config) => ({
      ...config,
      devtool: 'inline-nosources-source-map',
      output: { ...config.output, devtoolModuleFilenameTemplate: '[resource-path]' },
    }),
  });
  // Half the size. Stack traces still contain names, files and lines.
  const minify = { minifySyntax: true, minifyWhitespace: true, sourcemap: 'inline', sourcesContent: false } as const;
  const minified = await transform(code, { ...minify, target: 'node20', legalComments: 'none' });
  await writeFile(prebuiltBundle(LIB), minified.code);
}

async function writePage(page: PageFiles): Promise<void> {
  await mkdir(PAGE_DIRECTORY, { recursive: true });
  const names = Object.keys(PAGE_FILES) as (keyof PageFiles)[];
  await Promise.all(names.map((name) => writeFile(join(PAGE_DIRECTORY, PAGE_FILES[name]), page[name])));
}

main().catch((error: unknown) => {
  console.error(error);
  process.exitCode = 1;
});
