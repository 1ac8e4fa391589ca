import { serve } from '@/dev-server/serve';
import { findServer } from './support/find-server';
import { runMain } from './support/main';
import { parseServeOptions } from './support/run-options';

/** `pnpm server`: a Temporal server in the foreground, for `pnpm worker`, `pnpm start` and your own code. */
runMain(async (interrupt) => {
  await serve(parseServeOptions(process.argv.slice(2)), findServer, interrupt);
  return 0;
});
