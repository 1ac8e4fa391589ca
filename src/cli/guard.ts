import { type ChildProcess, spawn } from 'node:child_process';

/**
 * Reads the ID of a process group, then waits. A second line means that all went well; the end of the pipe without it, that
 * whoever holds the permit is dead: then the group is ended before the lease is.
 */
const SCRIPT = `
read group || exit 0
read done && exit 0
kill -s TERM -- "-$group"
sleep "$1"
kill -s KILL -- "-$group"
`;

/**
 * Ends a process group when this process dies without having done so itself, also by kill -9. It is a shell that waits for
 * the end of a pipe. Without it, the command would outlive the permit.
 */
export class Guard {
  private readonly shell: ChildProcess;

  /** @param graceMs how long the group has between TERM and KILL; in whole seconds, as sleep takes them everywhere */
  constructor(graceMs: number) {
    const seconds = String(Math.max(1, Math.floor(graceMs / 1_000)));
    const stdio = ['pipe', 'ignore', 'ignore'] as const;
    this.shell = spawn('/bin/sh', ['-c', SCRIPT, 'permit-guard', seconds], { detached: true, stdio: [...stdio] });
    this.shell.unref();
    // A guard that is gone takes no more orders: the command runs on, unguarded.
    this.shell.on('error', (error) => console.error(`temporal-semaphore: no guard: ${error.message}`));
    this.shell.stdin?.on('error', () => undefined);
  }

  watch(group: number): void {
    this.shell.stdin?.write(`${group}\n`);
  }

  /** The group has ended. */
  dismiss(): void {
    this.shell.stdin?.end('done\n');
  }
}
