import { openSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Client, Connection } from '@temporalio/client';
import { Operator } from '@/operator';
import { TcpProxy } from '../../../scripts/support/tcp-proxy';
import { ActorProcess } from './actor-process';
import type { ActorInput, PoolSetup } from './actors/input';
import { type BuiltActors, CommandLanes } from './command-lanes';
import { actorClock } from './faketime';
import { Observer } from './observer';
import type { ChaosServer } from './server';
import { WorkflowLanes } from './workflow-lanes';

export interface WorldOptions {
  seed: string;
  pools: PoolSetup[];
  taskQueue: string;
  /** Where logs and clocks lie. */
  directory: string;
  built: BuiltActors;
  recheckAfterMs: number;
  /** Called with what is worth a line. */
  tell(line: string): void;
}

interface Deployment {
  isUnderWay: boolean;
  count: number;
  /** Absent: the permit workers have no version. */
  current?: string | undefined;
}

/** A signal is answered within this, unless the machine is too busy. Clients here give a renewal 1.3 s. */
const LATE_ANSWER_MS = 1_000;

/** These run the build of another commit, where there is one. */
const BESIDE = ['permits-2', 'clients-2'];

/** All that takes part in a run but the nemesis: the server, the actors, and the observer who sees them. */
export class World {
  /** How many Workflows are terminated at their next turns. */
  armedTurns = 0;
  /** Of the permit workers: the build IDs that there were, and the current one. */
  readonly deployment: Deployment = { isUnderWay: false, count: 0 };
  private isStopped = false;

  private constructor(
    readonly options: WorldOptions,
    readonly server: ChaosServer,
    readonly observer: Observer,
    readonly client: Client,
    readonly actors: readonly ActorProcess[],
    readonly workflows: WorkflowLanes,
    readonly commands: CommandLanes,
  ) {}

  static async start(server: ChaosServer, options: WorldOptions): Promise<World> {
    const client = new Client({ connection: await Connection.connect({ address: server.address }) });
    const observer = await Observer.start();
    const actors: ActorProcess[] = [];
    const workflows = new WorkflowLanes(client, observer, options);
    const commands = new CommandLanes(await TcpProxy.to(server.address), observer, options);
    const world = new World(options, server, observer, client, actors, workflows, commands);
    try {
      for (const [role, name, holders] of [
        ['permits', 'permits-1', 0],
        ['permits', 'permits-2', 0],
        ['application', 'application', 0],
        ['clients', 'clients-1', 3],
        ['clients', 'clients-2', 3],
      ] as const) {
        actors.push(await world.actor(role, name, holders));
      }
      await Promise.all(actors.map((actor) => actor.start()));
    } catch (error) {
      await world.stop();
      throw error;
    }
    workflows.start();
    commands.start();
    void world.watchServer();
    return world;
  }

  ofRole(...roles: ActorInput['role'][]): ActorProcess[] {
    return this.actors.filter(({ input }) => roles.includes(input.role));
  }

  /** Marks that this is down from now on, until the function that it gives is called. */
  readonly outage = (scope: string): (() => void) => {
    const fromMs = Date.now();
    return () => void this.observer.outages.push({ scope, fromMs, toMs: Date.now() });
  };

  /** Marks that this worker's version is not the current one, until the function that it gives is called. */
  readonly notCurrent = (scope: string): (() => void) => {
    const fromMs = Date.now();
    return () => void this.observer.notCurrent.push({ scope, fromMs, toMs: Date.now() });
  };

  operatorOf({ resource, slots }: PoolSetup): Operator {
    return new Operator(this.client, resource, { ...slots, taskQueue: this.options.taskQueue });
  }

  /**
   * A server that takes long to keep one signal had no processor: renewals take as long. While it is down, others see to that. The
   * signals go to a Workflow that nobody runs.
   */
  private async watchServer(): Promise<void> {
    const { taskQueue } = this.options;
    const canary = { taskQueue: `${taskQueue}-nobody`, workflowId: `chaos-canary:${taskQueue}`, signal: 'chirp' };
    while (!this.isStopped) {
      const atMs = Date.now();
      await this.client.workflow.signalWithStart('canary', canary).catch(() => undefined);
      const healedMs = Date.now();
      if (healedMs - atMs > LATE_ANSWER_MS)
        this.observer.faults.push({ kind: 'stop-by-the-machine', target: '*', atMs, healedMs });
      await delay(1_000);
    }
  }

  /** Ends all acquirers: none acquires anew, and those that wait are served first. The permit worker stays. */
  retire(): void {
    this.workflows.retire();
    this.commands.retire();
    for (const actor of this.ofRole('clients')) actor.retire();
  }

  /** Whether all of them are gone. */
  get isRetired(): boolean {
    const { observer, workflows, commands } = this;
    const clientsEnded = this.ofRole('clients').every(({ hasEnded }) => hasEnded);
    return clientsEnded && workflows.running.size === 0 && commands.running.size === 0 && observer.waiting.length === 0;
  }

  async stop(): Promise<void> {
    this.isStopped = true;
    await Promise.all([this.workflows.stop(), this.commands.stop(), ...this.actors.map((actor) => actor.stop())]);
    this.observer.stop();
  }

  private async actor(role: ActorInput['role'], name: string, holders: number): Promise<ActorProcess> {
    const { seed, taskQueue, pools, recheckAfterMs, built, directory } = this.options;
    const proxy = await TcpProxy.to(this.server.address);
    const { actor, bundle } = (BESIDE.includes(name) && built.beside) || built;
    const input: ActorInput = {
      ...{ role, name, seed, taskQueue, pools, recheckAfterMs, holders },
      address: proxy.address,
      observerPort: this.observer.port,
      bundle,
    };
    return new ActorProcess(input, {
      main: actor,
      log: openSync(join(directory, `${name}.log`), 'a'),
      proxy,
      clock: actorClock(directory, name),
      outage: () => this.outage(name),
      died: (how, asked) => {
        if (role === 'clients') this.observer.killed(name); // a Workflow goes on when its worker is back
        if (asked) return;
        this.observer.deaths.push({ actor: name, how, atMs: Date.now() });
        this.options.tell(`${name} has died: ${how}`);
      },
      hadTurn: (workflowId) => this.hadTurn(workflowId),
    });
  }

  private hadTurn(workflowId: string): void {
    if (this.armedTurns === 0) return;
    this.armedTurns--;
    this.observer.faults.push({ kind: 'terminate-on-turn', target: workflowId, atMs: Date.now() });
    void this.workflows.terminate(workflowId, 'its turn').catch(() => undefined);
  }
}
