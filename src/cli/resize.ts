import type { Command } from 'commander';
import { wholeNumber } from './arguments';
import { type OverrideFlags, override, withOverrideFlags } from './override';
import { text } from './text';

const HELP = `
Example:
  temporal-semaphore resize gpu-pool 5 --capacity 3 --reason 'two more GPUs'
`;

export function addResize(program: Command, done: (exitCode: number) => void): void {
  const resize = program
    .command('resize <resource>')
    .argument('<n>', 'how many slots are to be in use', wholeNumber)
    .summary('change how many slots are in use')
    .description(
      'Changes how many slots are in use, until it is changed again. Slots that are held stay held, and are taken out of use as they come free. The number that the pool is deployed with ends the change.',
    )
    .option('--reason <text>', 'shown to operators')
    .addHelpText('after', HELP)
    .action(async (resource: string, n: number, flags: OverrideFlags) => {
      const { ifVersion, reason } = flags;
      const question = text`Resize "${resource}" to ${n}?`;
      done(await override(resource, flags, question, (pool) => pool.resize(n, { ifVersion, reason })));
    });
  withOverrideFlags(resize);
}
