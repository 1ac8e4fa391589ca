import type { Command } from 'commander';
import { type OverrideFlags, override, withOverrideFlags } from './override';

const HELP = `
It asks nothing, with --yes or without.

Example:
  temporal-semaphore resume gpu-pool
`;

export function addResume(program: Command, done: (exitCode: number) => void): void {
  const resume = program
    .command('resume <resource>')
    .summary('end a pause')
    .description('Ends a pause. The size that resize has set stays.')
    .addHelpText('after', HELP)
    .action(async (resource: string, flags: OverrideFlags) => {
      const { ifVersion } = flags;
      done(await override(resource, flags, undefined, (pool) => pool.resume({ ifVersion })));
    });
  withOverrideFlags(resume);
}
