import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { openSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { diesWithUs } from '../../../scripts/support/dies-with-us';
import type { TcpProxy } from '../../../scripts/support/tcp-proxy';
import { KEYS, type PoolSetup } from './actors/input';
import type { Observer } from './observer';
import { Luck } from './random';
import type { Outcome } from './record';

/** One build of what actors run. */
export interface BuiltActor {
  /** The file of `actors/main`. */
  actor: string;
  /** The bundle of Workflows. */
  bundle: string;
}

/** What a run builds first: from source, every process would need seconds more to start. */
export interface BuiltActors extends BuiltActor {
  /** The file of the command line. */
  commandLine: string;
  /** The build of another commit, for half of the permit workers and clients. */
  beside?: BuiltActor;
}

const LANES = 2;
const TIMEOUT = '20s';

/** Exit codes of `run` that are no failure. The command itself exits 0, and by a signal when its permit is lost. */
const OUTCOMES: Record<number, Outcome> = {
  0: 'granted',
  137: 'granted',
  143: 'granted',
  69: 'unavailable',
  75: 'timeout',
};

/** Shell commands under `temporal-semaphore run`, one after the other in each lane. They speak to the observer by bash's /dev/tcp. */
export class CommandLanes {
  /** Commands that run, by the name of their actor. */
  readonly running = new Map<string, ChildProcess>();
  private isRetired = false;
  private count = 0;
  private readonly luck: Luck;
  private readonly log: number;
  private lanes: Promise<void>[] = [];

  constructor(
    private readonly proxy: TcpProxy,
    private readonly observer: Observer,
    private readonly options: {
      seed: string;
      pools: PoolSetup[];
      taskQueue: string;
      built: BuiltActors;
      directory: string;
    },
  ) {
    this.luck = new Luck(`${options.seed}/commands`);
    this.log = openSync(join(options.directory, 'commands.log'), 'a');
  }

  start(): void {
    this.lanes = Array.from({ length: LANES }, () => this.lane());
  }

  retire(): void {
    this.isRetired = true;
  }

  async stop(): Promise<void> {
    this.retire();
    for (const child of this.running.values()) child.kill('SIGKILL');
    await Promise.all(this.lanes);
    await this.proxy.close();
  }

  private async lane(): Promise<void> {
    while (!this.isRetired) {
      await this.run();
      await delay(this.luck.between(1_000, 4_000));
    }
  }

  private async run(): Promise<void> {
    const { luck, options, observer } = this;
    const pool = options.pools[luck.whole(0, options.pools.length - 1)] as PoolSetup;
    const { resource, slots, paceMs, perKey } = pool;
    const actor = `command-${this.count++}`;
    const of = 'capacity' in slots ? ['--capacity', String(slots.capacity)] : ['--slots', slots.slots.join(',')];
    const to = ['--address', this.proxy.address, '--task-queue', options.taskQueue];
    const pace = paceMs === undefined ? [] : ['--pace', `${paceMs}ms`];
    const key = luck.of(KEYS);
    const keyed = perKey === undefined ? [] : ['--per-key', String(perKey), '--key', key];
    const when = ['--lease', '5s', '--timeout', TIMEOUT, '--priority', String(luck.whole(1, 3))];
    const how = [...pace, ...keyed, ...(pool.fair ? ['--fair'] : []), ...when];
    const script = [
      '--',
      'bash',
      '-c',
      work(actor, observer.port, luck.chance(0.3) ? luck.whole(100, 150) : luck.whole(2, 12)),
    ];
    observer.asked({ id: actor, resource, actor, mayTimeOut: true, ...(perKey !== undefined && { key }) });
    const child = spawn(
      process.execPath,
      [options.built.commandLine, 'run', resource, ...of, ...to, ...how, ...script],
      {
        stdio: ['ignore', this.log, this.log],
      },
    );
    diesWithUs(child);
    this.running.set(actor, child);
    const [code, signal] = (await once(child, 'exit')) as [number | null, NodeJS.Signals | null];
    this.running.delete(actor);
    if (signal) observer.killed(actor);
    else observer.settled(actor, OUTCOMES[code ?? -1] ?? 'failed', `exit code ${code}`);
  }
}

/** Begins, writes so many times, ends. */
function work(acquire: string, port: number, writes: number): string {
  const say = (message: object) =>
    `say '${JSON.stringify({ ...message, acquire }).replace('"TOKEN"', `"'$PERMIT_FENCING_TOKEN'"`)}'`;
  return [
    `exec 3<>/dev/tcp/127.0.0.1/${port}`,
    `say() { printf '%s\\n' "$1" >&3; read -r answer <&3; }`,
    say({ do: 'begin', token: 'TOKEN' }),
    `for i in $(seq ${writes}); do ${say({ do: 'write', token: 'TOKEN' })}; sleep 0.1; done`,
    say({ do: 'end' }),
  ].join('\n');
}
