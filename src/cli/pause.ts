import type { Command } from 'commander';
import { type OverrideFlags, override, withOverrideFlags } from './override';
import { plain } from './render';

export function addPause(program: Command, done: (exitCode: number) => void): void {
  const pause = program
    .command('pause <resource>')
    .summary('give no more permits')
    .description('Takes all slots out of use as they come free, until resume. Who waits goes on waiting.')
    .option('--reason <text>', 'shown to who looks')
    .option('-y, --yes', 'do not ask')
    .action(async (resource: string, flags: OverrideFlags) => {
      const { ifVersion, reason } = flags;
      const question = `Pause "${plain(resource)}"?`;
      done(await override(resource, flags, question, (pool) => pool.pause({ ifVersion, reason })));
    });
  withOverrideFlags(pause);
}
