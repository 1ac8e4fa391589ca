import type { Command } from 'commander';
import { NotHeldError } from '../client';
import { checkPool, openSlot } from '../client/operators';
import { type PoolFlags, withPoolFlags } from './arguments';
import { withClient } from './client';
import { confirmed } from './confirm';
import { EXIT } from './exit-codes';
import { holderName, print, printJson } from './render';
import { text } from './text';
import { sinceNow } from './wording';

interface RevokeFlags extends PoolFlags {
  reason?: string;
  runId?: string;
  yes?: true;
}

const HELP = `
Example:
  temporal-semaphore revoke gpu-pool 0 --reason 'node drain'
`;

export function addRevoke(program: Command, done: (exitCode: number) => void): void {
  const revoke = program
    .command('revoke <resource> <slot>')
    .summary('take a permit away')
    .description(
      'Takes the permit of a slot away. The holder learns that at once, with the reason. The slot goes to the next waiter.',
    )
    .option('--reason <text>', 'shown to the holder')
    .option('--run-id <id>', 'only if this run holds the slot')
    .option('-y, --yes', 'do not ask for confirmation')
    .addHelpText('after', HELP)
    .action(async (resource: string, slot: string, flags: RevokeFlags) => {
      done(await take(resource, slot, flags));
    });
  withPoolFlags(revoke);
}

/** @returns the exit code */
async function take(resource: string, slot: string, flags: RevokeFlags): Promise<number> {
  checkPool(resource, { ...flags, capacity: undefined, slots: [slot] });
  return await withClient(flags, async (client) => {
    const pool = openSlot(client, resource, slot, flags);
    const { slots } = await pool.inspect({ recent: 0 });
    const held = slots.find((it) => it.slot === slot)?.permit;
    if (!held || (flags.runId !== undefined && held.runId !== flags.runId)) {
      throw new NotHeldError({ resource, slot }, flags.runId);
    }
    const purpose = held.purpose ? text`, ${held.purpose}` : '';
    const who = text`${holderName(held.holder)} (for ${sinceNow(held.since)}${purpose})`;
    const what = text`slot "${slot}" of "${resource}" from ${who}`;
    if (!(await confirmed(text`Take ${what}?`, flags))) return EXIT.no;
    // It names the run: somebody else may hold the slot by the time the operator answers.
    const permit = await pool.revoke(slot, { runId: held.runId, reason: flags.reason });
    if (flags.output === 'text') print(text`Took ${what}.`);
    else printJson(permit, flags.output);
    return 0;
  });
}
