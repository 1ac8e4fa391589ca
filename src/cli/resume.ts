import type { Command } from 'commander';
import { type OverrideFlags, override, withOverrideFlags } from './override';

export function addResume(program: Command, done: (exitCode: number) => void): void {
  const resume = program
    .command('resume <resource>')
    .summary('end a pause')
    .description('Ends a pause. What resize has set stays.')
    .action(async (resource: string, flags: OverrideFlags) => {
      const { ifVersion } = flags;
      done(await override(resource, flags, undefined, (pool) => pool.resume({ ifVersion })));
    });
  withOverrideFlags(resume);
}
