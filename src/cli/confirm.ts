import { createInterface } from 'node:readline/promises';
import { InvalidOptionsError } from '../client';
import { type Text, text } from './text';

/** A signal has ended the wait or the question. (A prompt reads key by key, so Ctrl-C reaches no signal handler there.) */
export class Interrupted extends Error {
  constructor(readonly signal: NodeJS.Signals) {
    super(`Interrupted by ${signal}`);
  }
}

/** Asks the operator on a terminal. Without a terminal, only `--yes` confirms. @throws Interrupted by Ctrl-C */
export async function confirmed(question: Text, { yes }: { yes?: true }): Promise<boolean> {
  if (yes) return true;
  if (!process.stdin.isTTY || !process.stderr.isTTY) {
    throw new InvalidOptionsError(`${question} There is no terminal to ask on: give --yes.`);
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
