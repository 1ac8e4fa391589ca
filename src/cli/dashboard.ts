import { setFlagsFromString } from 'node:v8';
import type { Client } from '@temporalio/client';
import type { Command } from 'commander';
import { Server } from '../client/server/server';
import type { KeysByResource, KeysView } from '../dashboard/page-protocol';
import type { ResourceFinder } from '../dashboard/poller';
import { Operator, type OperatorOptions } from '../operator';
import { ANSWERS_WITHIN_MS } from '../operator/inspector';
import { type KeyInUse, resourcesInUse } from '../operator/resources-in-use';
import { refuse } from '../shared/check';
import { withTaskQueueFlag } from './arguments';
import { type ConnectionFlags, connectConfig, withClient, withConnectionFlags } from './connection';
import { endLine, print } from './terminal';
import { text } from './text';

interface DashboardFlags extends ConnectionFlags {
  host: string;
  port: number;
  token?: string;
  ui?: string;
  taskQueue?: string;
  readOnly?: true;
}

const HELP = `
Without arguments, the dashboard shows all resources in use. To show only some,
give each with its capacity or slots (gpu-pool=3, licences=a,b,c), or only its
name: the dashboard then takes the capacity from the resource's queue or
permits. The last "=" separates the name from the capacity or slots. So if a
resource's name contains "=", always give its capacity or slots.

By default, only this machine can reach the dashboard. If --host is an address
that other machines can reach, visitors need a token: that of --token or
TEMPORAL_SEMAPHORE_TOKEN, or else a generated one, which is part of the printed
address. The dashboard serves plain HTTP: put it behind a proxy that adds TLS.

Example:
  temporal-semaphore dashboard gpu-pool=3 licences=a,b,c
`;

export function addDashboard(program: Command, done: (exitCode: number) => void): void {
  const dashboard = program
    .command('dashboard [resources...]')
    .summary('serve a web dashboard of holders and waiters')
    .description(
      'Serves a web dashboard until SIGTERM or SIGINT. The dashboard shows who holds permits of the given resources and who waits for them, and can revoke, resize and pause.',
    )
    .option('--port <n>', 'the port to listen on (0: any free port)', Number, 8244)
    .option('--host <name>', 'the address to listen on', '127.0.0.1')
    .option(
      '--token <text>',
      'the token that visitors need (default: TEMPORAL_SEMAPHORE_TOKEN; without it, a generated one if other machines can reach --host, and else none)',
    )
    .option(
      '--ui <url>',
      'the Temporal Web UI to link to (default: that of the development server or of Temporal Cloud)',
    )
    .option('--read-only', 'show resources, but offer no actions')
    .addHelpText('after', HELP)
    .action(async (resources: string[], flags: DashboardFlags) => {
      await serve(resources, flags);
      done(0);
    });
  withConnectionFlags(withTaskQueueFlag(dashboard));
}

async function serve(resources: string[], flags: DashboardFlags): Promise<void> {
  const { host, port, ui, taskQueue, readOnly = false } = flags;
  if (!Number.isInteger(port) || port < 0 || port > 65_535) refuse('--port', 'a whole number from 0 to 65535', port);
  // This process keeps 20 MB. By default, V8 lets garbage pile up to 100 MB more.
  setFlagsFromString('--optimize-for-size');
  setFlagsFromString('--semi-space-growth-factor=1');
  // Loaded only here: the other commands need no web server.
  const { startDashboard, webUiOf } = await import('../dashboard/server.js');
  const { resolveAccess } = await import('../dashboard/access.js');
  const { readPageFiles } = await import('../dashboard/page-files.js');
  const access = resolveAccess(host, flags.token ?? process.env.TEMPORAL_SEMAPHORE_TOKEN);
  const { address, namespace } = connectConfig(flags);
  const session = { namespace, address, ui: webUiOf(address, ui), readOnly };
  const named = resources.map(parseResource);
  const open = (client: Client) => new DashboardResources(client, named, taskQueue);
  const show = async (client: Client) => {
    const finder = open(client);
    const page = await readPageFiles();
    const dashboard = await startDashboard({ operators: finder.given, finder, access, port, session, page });
    print(text`${dashboard.url}`);
    if (access.token !== undefined && !access.isTokenNew) {
      print(text`Visitors need the token that you gave: the first time, add ?token=<the token> to that address.`);
    }
    const ended = await new Promise<NodeJS.Signals>((resolve) => {
      for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, resolve);
    });
    if (ended === 'SIGINT') endLine();
    await dashboard.close();
  };
  await withClient(flags, show, open);
}

export interface NamedResource extends Pick<OperatorOptions, 'capacity' | 'slots'> {
  resource: string;
}

/** The resources that `dashboard` shows: those that the operator has named, or else all that are in use. */
export class DashboardResources implements ResourceFinder {
  /** For the resources that the operator has named. */
  readonly given: Operator[] = [];
  /** For the resources whose slots the operator has not named. */
  private readonly found = new Map<string, Operator>();
  private readonly all: boolean;
  private ofKeys: ReadonlyMap<string, KeyInUse> = new Map();
  keys: KeysByResource = {};

  /**
   * @param resources as {@link parseResource} gives them
   * @throws InvalidOptionsError
   */
  constructor(
    private readonly client: Client,
    resources: readonly NamedResource[],
    private readonly taskQueue?: string,
  ) {
    this.all = resources.length === 0;
    for (const { resource, capacity, slots } of resources) {
      const isSized = capacity !== undefined || slots !== undefined;
      const sized = () => new Operator(client, resource, { capacity, slots, taskQueue });
      this.given.push(isSized ? sized() : this.unsized(resource));
    }
  }

  /** Finds the resources in use by two calls to visibility; by no call when the operator has named all resources with their slots. */
  async find(): Promise<Operator[]> {
    if (!this.all && this.found.size === 0) return [];
    const inUse: Operator[] = [];
    const keys: Record<string, KeysView> = {};
    const allKeys = new Map<string, KeyInUse>();
    for (const [resource, { held, ofKeys }] of await resourcesInUse(this.client)) {
      if (!this.all && !this.found.has(resource)) continue;
      const operator = this.unsized(resource);
      operator.addHeld(held);
      inUse.push(operator);
      if (ofKeys) keys[resource] = keysView(ofKeys);
      for (const [name, key] of ofKeys ?? []) {
        allKeys.set(name, key);
        this.found.get(name)?.addHeld(key.held);
      }
    }
    this.keys = keys;
    this.ofKeys = allKeys;
    return inUse;
  }

  key(name: string): Operator | undefined {
    const key = this.ofKeys.get(name);
    if (!key) return undefined;
    const operator = this.unsized(name);
    operator.addHeld(key.held);
    return operator;
  }

  async askServer(): Promise<void> {
    const { workflowService, options } = this.client;
    const ask = () => workflowService.describeNamespace({ namespace: options.namespace });
    await new Server(this.client).call(ask, ANSWERS_WITHIN_MS);
  }

  forget(resource: string): void {
    this.found.delete(resource);
  }

  private unsized(resource: string): Operator {
    const operator = this.found.get(resource) ?? new Operator(this.client, resource, { taskQueue: this.taskQueue });
    this.found.set(resource, operator);
    return operator;
  }
}

/** The most keys of a resource that the page lists. */
const MAX_KEYS_SHOWN = 200;

function keysView(ofKeys: ReadonlyMap<string, KeyInUse>): KeysView {
  const all = [...ofKeys].map(([resource, { held, isQueued }]) => ({ resource, held: held.length, isQueued }));
  all.sort((a, b) => Number(b.isQueued) - Number(a.isQueued) || b.held - a.held || (a.resource < b.resource ? -1 : 1));
  return { count: all.length, first: all.slice(0, MAX_KEYS_SHOWN) };
}

/**
 * Reads `name`, `name=3` or `name=a,b,c`. A name may have a `=`, so the last `=` counts.
 * @throws InvalidOptionsError
 */
export function parseResource(text: string): NamedResource {
  const at = text.lastIndexOf('=');
  const resource = at < 0 ? text : text.slice(0, at);
  const value = text.slice(at + 1);
  if (resource === '' || value === '') {
    refuse('resource', '<name>, <name>=<capacity> or <name>=<slot>,<slot>…', text);
  }
  if (at < 0) return { resource };
  return /^\d+$/.test(value) ? { resource, capacity: Number(value) } : { resource, slots: value.split(',') };
}
