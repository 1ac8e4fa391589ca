// Runs commands of the command line one after the other, as `src/cli/main.ts` runs one, and marks where the output of each
// ends: by NUL characters, which the command line lets nobody print.
import { execute } from '../../src/cli/program';

process.setMaxListeners(0); // each `run` listens for signals, and expects its process to end with it

let last = Promise.resolve();

process.on('message', (args: string[]) => {
  last = last.then(async () => {
    const end = `\0${await execute([process.execPath, 'temporal-semaphore', ...args])}\0`;
    process.stdout.write(end);
    // On a terminal both are one.
    if (!process.stdout.isTTY) process.stderr.write(end);
  });
});
