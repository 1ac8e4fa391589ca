import { createInterface } from 'node:readline/promises';
import { InvalidOptionsError } from '../client';
import { type Text, text } from './text';

/** Ctrl-C: at a prompt it reaches no signal handler, for the terminal is read key by key. */
export class Interrupted extends Error {
  constructor(readonly signal: NodeJS.Signals) {
    super(`Interrupted by ${signal}`);
  }
}

/** Asks on a terminal. Where there is none, `--yes` must have said so. @throws Interrupted by Ctrl-C */
export async function confirmed(question: Text, { yes }: { yes?: true }): Promise<boolean> {
  if (yes) return true;
  if (!process.stdin.isTTY || !process.stderr.isTTY) {
    throw new InvalidOptionsError(`${question} Nobody can be asked here: give --yes.`);
  }
  // Not on standard output, which may go to a file.
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  const given = new Promise<string>((resolve, reject) => {
    terminal.once('SIGINT', () => reject(new Interrupted('SIGINT')));
    terminal.once('close', () => resolve(''));
  });
  try {
    const answer = await Promise.race([terminal.question(`${text`${question} [y/N] `}`), given]);
    return /^y(es)?$/i.test(answer.trim());
  } finally {
    terminal.close();
  }
}
