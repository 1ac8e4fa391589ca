import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { endWithTests } from './children';
import type { ClientInput, Step } from './client-main';

const MAIN = require.resolve('./client-main');

/** A client in a process of its own, which a test can stop and kill. */
export class ClientProcess {
  readonly steps: Step[] = [];
  private readonly process: ChildProcess;
  /** Its exit code, when all that it told is here; `null` when a signal ended it. */
  readonly exit: Promise<number | null>;
  private heard = () => {};
  private ended = false;

  constructor(input: ClientInput) {
    const { TEMPORAL_SEMAPHORE_SERVER: _, ...env } = process.env;
    this.process = spawn(process.execPath, ['--import', 'tsx', MAIN, JSON.stringify(input)], {
      env,
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    endWithTests(this.process);
    this.exit = once(this.process, 'close').then(([code]) => {
      this.ended = true;
      this.heard();
      return code;
    });
    if (!this.process.stdout) throw new Error('no stdout');
    createInterface(this.process.stdout).on('line', (line) => {
      this.steps.push(JSON.parse(line));
      this.heard();
    });
  }

  /** Waits until it has come to that step; fails when it ended before. */
  async until(step: Step['step']): Promise<Step> {
    for (;;) {
      const found = this.steps.find((it) => it.step === step);
      if (found) return found;
      if (this.ended) throw new Error(`the client ended before it came to "${step}"`);
      await new Promise<void>((resolve) => {
        this.heard = resolve;
      });
    }
  }

  signal(name: NodeJS.Signals): void {
    this.process.kill(name);
  }

  /** kill -9, unless it has ended. */
  async kill(): Promise<void> {
    this.process.kill('SIGKILL');
    await this.exit;
  }
}
