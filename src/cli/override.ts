import type { Command } from 'commander';
import type { Override } from '../client/operator/inspection';
import type { OverrideOptions } from '../client/operator/operator';
import type { SemaphoreClient } from '../client/semaphore-client';
import { wholeNumber } from './arguments';
import { withClient } from './client';
import { confirmed } from './confirm';
import { EXIT } from './exit-codes';
import { checkPool, openPool, type PoolFlags, withPoolFlags } from './pool';
import { overrideNote } from './pool-view';
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
    const pool = await openPool(client, resource, flags);
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
