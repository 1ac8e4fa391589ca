import { type ChildProcess, fork } from 'node:child_process';
import type { GuardOrder } from './guard-order';
import { say } from './render';

/**
 * Ends a process group when this process can't: when it was killed, at once, also by kill -9; when it is stopped or hangs,
 * before the lease is over. Without it, the command would run on beside the next holder. It is a process of its own, which
 * no signal from the terminal reaches.
 */
export class Guard {
  /**
   * Resolves when the guard listens, or when there is none. The command must not start before: were this process killed
   * meanwhile, the guard would never hear of it.
   */
  readonly ready: Promise<unknown>;
  private readonly process: ChildProcess;

  constructor() {
    this.process = fork(require.resolve('./guard-process'), [], {
      detached: true,
      stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
      env: {},
    });
    this.process.unref();
    this.process.on('error', (error) => say(`no guard: ${error.message}`));
    this.ready = new Promise<void>((resolve) => {
      for (const event of ['message', 'error', 'exit']) this.process.once(event, () => resolve());
    }).then(() => this.process.channel?.unref());
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
