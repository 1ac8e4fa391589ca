import type { Command } from 'commander';
import { type OverrideFlags, override, withOverrideFlags } from './override';
import { text } from './text';

const HELP = `
Example:
  temporal-semaphore pause gpu-pool --capacity 3 --reason 'node drain'
`;

export function addPause(program: Command, done: (exitCode: number) => void): void {
  const pause = program
    .command('pause <resource>')
    .summary('give no more permits')
    .description('Takes all slots out of use as they come free, until resume. Waiters go on waiting.')
    .option('--reason <text>', 'shown to operators')
    .addHelpText('after', HELP)
    .action(async (resource: string, flags: OverrideFlags) => {
      const { ifVersion, reason } = flags;
      const question = text`Pause "${resource}"?`;
      done(await override(resource, flags, question, (pool) => pool.pause({ ifVersion, reason })));
    });
  withOverrideFlags(pause);
}
