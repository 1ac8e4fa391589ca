import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { openSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Connection } from '@temporalio/client';
import { diesWithUs } from '../dies-with-us';
import { type NodeConfig, writeNodeConfig } from './node-config';
import { HOST } from './ports';

const STARTS_WITHIN_MS = 150_000;

/** One that ends as it starts, or does not answer for so long, is started again, as a supervisor does: its database may have been down. */
const ANSWERS_WITHIN_MS = 45_000;

/** One server process of a cluster, with frontend, history and matching service. It can end, stop and start again. */
export class ClusterNode {
  private child: ChildProcess | undefined;
  private exited: Promise<unknown> = Promise.resolve();
  private isWanted = false;

  constructor(
    readonly name: string,
    private readonly executable: string,
    private readonly directory: string,
    private readonly config: NodeConfig,
    /** One node of a cluster runs the server's own Workflows. */
    private readonly runsSystemWorkflows: boolean,
  ) {}

  get frontendPort(): number {
    return this.config.firstPort;
  }

  /** Of its history service, as the database names a shard's owner. */
  get historyAddress(): string {
    return `${HOST}:${this.config.firstPort + 2}`;
  }

  /** Starts it, and waits until its frontend answers. Does nothing when it runs. */
  async start(): Promise<void> {
    if (this.child) return;
    this.isWanted = true;
    await writeNodeConfig(this.directory, this.config);
    for (const untilMs = Date.now() + STARTS_WITHIN_MS; ; await delay(500)) {
      if (!this.isWanted) return;
      this.spawn();
      if (await this.answers()) return;
      await this.end('SIGKILL');
      if (Date.now() > untilMs) break;
    }
    const log = await readFile(this.logFile, 'utf8').catch(() => '');
    throw new Error(`Node ${this.name} of the cluster did not start:\n${log.slice(-2_000)}`);
  }

  private spawn(): void {
    const services = ['frontend', 'history', 'matching', ...(this.runsSystemWorkflows ? ['worker'] : [])];
    const log = openSync(this.logFile, 'a');
    const child = spawn(
      this.executable,
      [
        ...['--root', this.directory, '--config', '.', '--env', 'node', '--allow-no-auth', 'start'],
        ...services.flatMap((service) => ['--service', service]),
      ],
      { detached: true, stdio: ['ignore', log, log] }, // a Ctrl-C at the terminal must not reach it before us
    );
    this.child = diesWithUs(child);
    this.exited = once(child, 'exit').then(() => {
      if (this.child === child) this.child = undefined;
    });
  }

  /** Ends it. SIGTERM lets it hand its shards over, which takes seconds; SIGKILL is a crash. */
  async stop(signal: 'SIGTERM' | 'SIGKILL' = 'SIGKILL'): Promise<void> {
    this.isWanted = false;
    await this.end(signal);
  }

  private async end(signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
    this.child?.kill(signal);
    await this.exited;
  }

  /** Stops its clock: its connections stay open, and nobody answers. */
  pause(): void {
    this.child?.kill('SIGSTOP');
  }

  resume(): void {
    this.child?.kill('SIGCONT');
  }

  private get logFile(): string {
    return join(this.directory, 'log');
  }

  private async answers(): Promise<boolean> {
    for (const untilMs = Date.now() + ANSWERS_WITHIN_MS; this.child && Date.now() < untilMs; await delay(200)) {
      const answered = await Connection.connect({
        address: `${HOST}:${this.frontendPort}`,
        connectTimeout: 1_000,
      }).then(
        async (connection) => {
          await connection.close();
          return true;
        },
        () => false,
      );
      if (answered) return true;
    }
    return false;
  }
}
