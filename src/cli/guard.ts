import { type ChildProcess, fork } from 'node:child_process';
import type { GuardOrder } from './guard-order';
import { say } from './render';

/**
 * Ends a process group when this process can't: when it was killed, at once, also by kill -9; when it is stopped or hangs,
 * before the lease is over. Without it, the command would run on beside the next holder. It is a process of its own, which
 * no signal from the terminal reaches.
 */
export class Guard {
  private readonly process: ChildProcess;

  constructor() {
    this.process = fork(require.resolve('./guard-process'), [], {
      detached: true,
      stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
      env: {},
    });
    this.process.unref();
    this.process.channel?.unref();
    this.process.on('error', (error) => say(`no guard: ${error.message}`));
  }

  tell(order: GuardOrder): void {
    // A guard that is gone takes no more orders: the command runs on, unguarded.
    if (this.process.connected) this.process.send(order, () => undefined);
  }

  /** The group has ended. */
  dismiss(): void {
    this.process.kill('SIGKILL');
  }
}
