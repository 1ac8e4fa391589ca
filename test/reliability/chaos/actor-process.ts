import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { diesWithUs } from '../../../scripts/support/dies-with-us';
import type { Cut, Slowness, TcpProxy } from '../../../scripts/support/tcp-proxy';
import type { ActorInput, Order } from './actors/input';
import type { ActorClock } from './faketime';

/** What an actor's process needs from around it. */
export interface ActorSurroundings {
  /** The built file of `actors/main`. */
  main: string;
  /** The file descriptor to which it writes. */
  log: number;
  proxy: TcpProxy;
  clock: ActorClock | undefined;
  /** Marks a time in which it was down; the function that it gives ends that time. */
  outage(): () => void;
  /** It has died, by this exit code or signal; `asked`: the nemesis or the end of the run wanted that. */
  died(how: string, asked: boolean): void;
  /** A Workflow that this process runs has its turn. */
  hadTurn(workflowId: string): void;
}

const RESTART_MS = 500;
const STOP_WITHIN_MS = 30_000;

/** One actor: a process that is started again whenever it has died, until the run is over. */
export class ActorProcess {
  /** A fault is at work on it. */
  isHit = false;
  private child: ChildProcess | undefined;
  /** It is not to start anew. */
  private isRetired = false;
  /** Whether the nemesis keeps it down. */
  private isHeld = false;
  /** It is to kill itself. */
  private isDoomed = false;

  constructor(
    private started: ActorInput,
    private readonly surroundings: ActorSurroundings,
  ) {}

  /** What its process was started with, or is to be. */
  get input(): ActorInput {
    return this.started;
  }

  get name(): string {
    return this.input.name;
  }

  /** Resolves when it is at work. */
  async start(): Promise<void> {
    const { main, log, clock, outage, died, hadTurn } = this.surroundings;
    this.isHeld = false;
    const up = outage();
    const child = spawn(process.execPath, ['--enable-source-maps', main, JSON.stringify(this.input)], {
      stdio: ['ignore', log, log, 'ipc'],
      env: { ...process.env, ...clock?.env },
    });
    diesWithUs(child);
    this.child = child;
    let isUp = false;
    const started = new Promise<void>((resolve) => {
      child.on('message', (message: 'ready' | { turn: string }) => {
        if (message !== 'ready') return hadTurn(message.turn);
        isUp = true;
        up();
        if (this.isRetired) this.order('stop');
        resolve();
      });
      child.once('exit', (code, signal) => {
        if (!isUp) up();
        died(signal ?? `code ${code}`, this.isHeld || this.isRetired || (this.isDoomed && signal === 'SIGKILL'));
        this.isDoomed = false;
        resolve();
        void this.restart(child);
      });
    });
    await started;
  }

  order(order: Order): void {
    if (order === 'kill-on-turn') this.isDoomed = true;
    if (this.child?.connected) this.child.send(order, () => undefined);
  }

  /** kill -9; it stays down until the function that this gives is called. */
  async kill(): Promise<() => Promise<void>> {
    this.isHeld = true;
    const up = this.surroundings.outage();
    await this.end('SIGKILL');
    return async () => {
      up();
      await this.start();
    };
  }

  /** Ends it as an operator does, and starts it as another version. */
  async redeploy(buildId: string | undefined): Promise<void> {
    this.isHeld = true;
    const up = this.surroundings.outage();
    this.order('stop');
    await this.untilEnded();
    this.started = { ...this.started, buildId };
    up();
    await this.start();
  }

  /** SIGSTOP, until the function that this gives is called. */
  freeze(): () => void {
    const up = this.surroundings.outage();
    const { child } = this;
    child?.kill('SIGSTOP');
    return () => {
      child?.kill('SIGCONT');
      up();
    };
  }

  /** Cuts it off from the server, until the function that this gives is called. */
  cutOff(how: Cut): () => void {
    const { proxy, outage } = this.surroundings;
    const up = outage();
    proxy.cut(how);
    return () => {
      proxy.mend();
      up();
    };
  }

  /** Stops and continues it by turns, until the function that this gives is called. */
  stutter(stoppedMs: number, runsMs: number): () => void {
    return stutter((signal) => this.child?.kill(signal), stoppedMs, runsMs);
  }

  /** Makes its connections slow, until the function that this gives is called. */
  slowDown(slowness: Slowness): () => void {
    const { proxy } = this.surroundings;
    proxy.slowDown(slowness);
    return () => proxy.mend();
  }

  /** `false` where its clock can't be moved. */
  jumpClock(seconds: number): boolean {
    this.surroundings.clock?.jump(seconds);
    return this.surroundings.clock !== undefined;
  }

  /** Lets it finish what it does, for as long as that takes. It does not start anew. */
  retire(): void {
    this.isRetired = true;
    this.order('stop');
  }

  get hasEnded(): boolean {
    return !this.child || this.child.exitCode !== null || this.child.signalCode !== null;
  }

  async stop(): Promise<void> {
    this.retire();
    await this.untilEnded();
    await this.surroundings.proxy.close();
  }

  /** It was told to end. */
  private async untilEnded(): Promise<void> {
    if (this.child && !this.hasEnded) {
      await Promise.race([once(this.child, 'exit'), delay(STOP_WITHIN_MS, undefined, { ref: false })]);
    }
    await this.end('SIGKILL');
  }

  private async end(signal: NodeJS.Signals): Promise<void> {
    if (!this.child || this.hasEnded) return;
    const exit = once(this.child, 'exit');
    this.child.kill(signal);
    await exit;
  }

  private async restart(child: ChildProcess): Promise<void> {
    if (this.isRetired || this.isHeld || this.child !== child) return;
    const up = this.surroundings.outage();
    await delay(RESTART_MS);
    if (!this.isRetired && !this.isHeld && this.child === child) await this.start();
    up();
  }
}

/** Stops and continues a process by turns, until the function that this gives is called. */
export function stutter(send: (signal: 'SIGSTOP' | 'SIGCONT') => void, stoppedMs: number, runsMs: number): () => void {
  let timer: NodeJS.Timeout;
  const stop = () => {
    send('SIGSTOP');
    timer = setTimeout(go, stoppedMs);
  };
  const go = () => {
    send('SIGCONT');
    timer = setTimeout(stop, runsMs);
  };
  stop();
  return () => {
    clearTimeout(timer);
    send('SIGCONT');
  };
}
