import type { Command } from 'commander';
import type { Override, OverrideOptions, SemaphoreClient } from '../client';
import { checkPool, PoolByName } from '../client/operators';
import { wholeNumber } from './arguments';
import { withClient } from './client';
import { confirmed } from './confirm';
import { overrideNote } from './draw-pool';
import { EXIT } from './exit-codes';
import { type PoolFlags, withPoolFlags } from './pool';
import { print, printJson } from './render';
import { type Text, text } from './text';

export interface OverrideFlags extends PoolFlags, Pick<OverrideOptions, 'ifVersion' | 'reason'> {
  yes?: true;
}

/** The flags of every command that changes what is set for a pool. */
export function withOverrideFlags(command: Command): Command {
  command
    .option('--if-version <n>', 'only if what is set is of this version; 0: if nothing is', wholeNumber)
    .option('-y, --yes', 'do not ask');
  return withPoolFlags(command);
}

/** Asks, where there is a question, acts, and shows what is set then. @returns the exit code */
export async function override(
  resource: string,
  flags: OverrideFlags,
  question: Text | undefined,
  act: (pool: SemaphoreClient) => Promise<Override | undefined>,
): Promise<number> {
  checkPool(resource, flags);
  return await withClient(flags, async (client) => {
    const pool = await new PoolByName(client, resource, flags).open();
    if (question !== undefined && !(await confirmed(question, flags))) return EXIT.no;
    const now = await act(pool);
    const set = now && (now.paused || now.capacity !== undefined) ? now : undefined;
    const { output } = flags;
    if (output !== 'text') printJson(set ?? null, output);
    else if (set) print(text`${resource}: ${overrideNote(set)} (version ${set.version}).`);
    else print(text`${resource}: as it was deployed.`);
    return 0;
  });
}
