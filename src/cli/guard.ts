import { type ChildProcess, fork } from 'node:child_process';
import { say } from './render';

/** What the guard is to do; each order takes the place of the one before. Times are {@link clockMs}. */
export interface GuardOrder {
  /** The process group that it ends, */
  group: number;
  /** by TERM from then on, unless it hears anew; absent while this process does that itself, */
  termAtMs?: number;
  /** and by KILL from then on. */
  killAtMs: number;
  /** How long the group has between the two when this process is dead. */
  graceMs: number;
}

/** A clock that all processes of a machine share, in milliseconds. Nobody can set it, and a stopped process doesn't stop it. */
export function clockMs(): number {
  return Number(process.hrtime.bigint() / 1_000_000n);
}

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
