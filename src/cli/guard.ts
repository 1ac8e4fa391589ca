import { type ChildProcess, fork } from 'node:child_process';
import { on, once } from 'node:events';
import { say } from './terminal';

/** What the guard says when it takes orders. */
export const LISTENS = 'listens';

/**
 * Ends the command's process group when this process can't. If this process is killed (by kill -9 too), the guard acts at
 * once. If it is stopped or hangs, the guard acts before the lease ends. Without a guard, the command would run on alongside
 * the next holder. The guard is a separate process, which no signal from the terminal reaches.
 */
export class Guard {
  /**
   * Resolves when the guard listens, or has failed to start. The command must not start earlier: if this process were
   * killed meanwhile, the guard would never know of the command.
   */
  readonly ready: Promise<unknown>;
  private readonly process: ChildProcess;
  private isDismissed = false;

  constructor() {
    this.process = fork(require.resolve('./guard-process'), [], {
      detached: true,
      stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
      env: {},
    });
    this.process.unref();
    this.process.on('error', (error) => say(`the command runs without its guard process: ${error.message}`));
    this.process.on('exit', (code, signal) => {
      if (code === 0 || this.isDismissed) return; // it ends by itself when it has ended the group
      say(`the command runs without its guard process, which ended with ${signal ?? `exit code ${code}`}`);
    });
    this.ready = Promise.race([this.listens(), once(this.process, 'exit')])
      .catch(() => undefined)
      .then(() => this.process.channel?.unref?.()); // Bun has none
  }

  /** The first message may come from a module that Node loads before the guard: the guard inherits `--import` and the like. */
  private async listens(): Promise<void> {
    for await (const [message] of on(this.process, 'message')) if (message === LISTENS) return;
  }

  tell(order: GuardOrder): void {
    // A guard that is gone takes no more orders: the command runs on, unguarded.
    if (this.process.connected) this.process.send(order, () => undefined);
  }

  /** Ends the guard: the group has ended. */
  dismiss(): void {
    this.isDismissed = true;
    this.process.kill('SIGKILL');
  }
}

/** An order to the guard. It replaces the one before. Times are {@link clockMs}. */
export interface GuardOrder {
  /** The process group to end. */
  group: number;
  /** When to send TERM, unless a new order comes. Absent while this process sends it itself. */
  termAtMs?: number;
  /** When to send KILL. */
  killAtMs: number;
  /** The time between TERM and KILL when this process is dead. */
  graceMs: number;
}

/** A clock that all processes of a machine share, in milliseconds. It can't be set, and goes on while a process is stopped. */
export function clockMs(): number {
  return Number(process.hrtime.bigint() / 1_000_000n);
}
