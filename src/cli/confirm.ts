import { createInterface } from 'node:readline/promises';
import { InvalidOptionsError } from '../shared/refuse';

/** Asks on a terminal. Where there is none, `--yes` must have said so. */
export async function confirmed(question: string, { yes }: { yes?: true }): Promise<boolean> {
  if (yes) return true;
  if (!process.stdin.isTTY || !process.stderr.isTTY) {
    throw new InvalidOptionsError(`${question} Nobody can be asked here: give --yes.`);
  }
  // Not on standard output, which may go to a file.
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  const closed = new Promise<string>((resolve) => terminal.once('close', () => resolve('')));
  try {
    const answer = await Promise.race([terminal.question(`${question} [y/N] `), closed]);
    return /^y(es)?$/i.test(answer.trim());
  } finally {
    terminal.close();
  }
}
