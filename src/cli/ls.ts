import { type Command, Option } from 'commander';
import { shellWord } from '../client/server/commands';
import { Server } from '../client/server/server';
import { InvalidOptionsError } from '../operator';
import { addTo } from '../operator/add-to';
import { pausedIn } from '../operator/paused';
import { strangersLine } from '../operator/reader';
import { inspectAllInUse, type SeenResource, withUnqueued } from '../operator/resources-in-use';
import { type ResourceFlags, wholeNumber, withResourceFlags } from './arguments';
import { withClient, withOperator } from './connection';
import { drawResource, overrideNote, silenceOf, unansweredTaskQueues } from './draw-resource';
import { EXIT } from './exit-codes';
import { type Polled, pollersOn } from './resource-findings';
import { print, printCut, printJson, say } from './terminal';
import { type Align, red, Text, table, text, yellow } from './text';
import { disagreementLine, sinceNow } from './wording';

interface LsFlags extends ResourceFlags {
  recent: number;
  keys?: boolean;
  wide?: boolean;
}

const HELP = `
Exit code ${EXIT.no}: the resource has no holder, no waiter and no override (a limit
that was set with resize or pause).
Exit code ${EXIT.busy}: some of the resources in use could not be inspected; their
rows say why.

Examples:
  temporal-semaphore ls
  temporal-semaphore ls gpu-pool --recent 5 --wide
  temporal-semaphore ls gpu-pool -o json
  temporal-semaphore ls openai --keys
`;

export function addLs(program: Command, done: (exitCode: number) => void): void {
  const ls = program
    .command('ls [resource]')
    .summary('show who holds and who waits')
    .description(
      'Shows who holds permits of <resource> and who waits for them. Without <resource>, lists all resources in use.',
    )
    .option('--recent <n>', 'also show the last n holds that have ended (at most 100)', wholeNumber, 0)
    .addOption(new Option('--keys', 'list each key in its own row, with its limit').conflicts(['key', 'recent']))
    .option('--wide', 'also show the run IDs, and do not cut long lines')
    .addHelpText('after', HELP)
    .action(async (resource: string | undefined, flags: LsFlags) => {
      done(await (resource === undefined || flags.keys ? all(flags, resource) : one(resource, flags)));
    });
  withResourceFlags(ls);
}

/** @returns the exit code */
async function one(resource: string, flags: LsFlags): Promise<number> {
  const seen = await withOperator(resource, flags, async (operator, client) => {
    const inspection = await operator.inspect({ recent: flags.recent });
    const [seen = inspection] = await withUnqueued(client, [inspection]);
    return seen;
  });
  const { output, wide } = flags;
  if (output !== 'text') printJson(seen, output);
  if (isUnknown(seen)) return sayUnknown(seen.resource);
  if (output === 'text') await (wide ? print : printCut)(drawResource(seen, { wide }));
  return 0;
}

/** @returns the exit code */
function sayUnknown(resource: string): number {
  say(
    text`no caller holds or waits for a permit of "${resource}". If it is a resource, --capacity shows its free slots.`,
  );
  return EXIT.no;
}

/** Whether nothing by this name runs or ran lately, and it is unknown how many slots it has. */
function isUnknown({ capacity, slots, queue, recent, unqueued }: SeenResource): boolean {
  return capacity === undefined && slots.length === 0 && queue === 'none' && recent.length === 0 && !unqueued;
}

/** @returns the exit code */
async function all({ output, wide, keys, key, ...connection }: LsFlags, of?: string): Promise<number> {
  if (key !== undefined) throw new InvalidOptionsError('--key: give the resource too.');
  const { resources, polled } = await withClient(connection, async (client) => {
    const resources = await inspectAllInUse(client, { keys, of, overview: true });
    // The overview asks no permit, since each would cost a query. Instead, the server says which workers poll the task queues of the permits.
    const looking = new Server(client).call(() => pollersOn(client, resources.flatMap(permitTaskQueues)));
    return { resources, polled: await looking.catch((): Polled => new Map()) };
  });
  if (output !== 'text') printJson(resources.map(seenOnly), output);
  if (of !== undefined && resources.length === 0) return sayUnknown(of);
  const exitCode = resources.some(({ problem }) => problem !== undefined) ? EXIT.busy : 0;
  if (output !== 'text') return exitCode;
  if (resources.length === 0) print(text`No caller holds or waits for a permit.`);
  else {
    const lines = [table(HEAD, resources.map(row), ALIGN, wide ? Number.POSITIVE_INFINITY : undefined)];
    const all = [...lines, ...silences(resources, polled), ...resources.flatMap(notes)];
    await (wide ? print : printCut)(Text.lines(all));
  }
  return exitCode;
}

/** What to show of a resource that could not be inspected. */
function seenOnly(seen: SeenResource): object {
  const { resource, problem } = seen;
  return problem === undefined ? seen : { resource, problem };
}

function permitTaskQueues({ slots }: SeenResource): string[] {
  return slots.flatMap(({ permit }) => permit?.taskQueue ?? []);
}

/** One line for each task queue: any client may start a thousand permits there. */
function silences(resources: readonly SeenResource[], polled: Polled): Text[] {
  const byTaskQueue = new Map<string, string[]>();
  for (const seen of resources) {
    const silent = [
      ...unansweredTaskQueues(seen),
      ...permitTaskQueues(seen).filter((name) => polled.get(name)?.length === 0),
    ];
    for (const taskQueue of new Set(silent)) addTo(byTaskQueue, taskQueue, seen.resource);
  }
  return [...byTaskQueue].map(([taskQueue, [first = '', ...more]]) => {
    const others = more.length > 0 ? ` and ${more.length} more` : '';
    return yellow(text`${first}${others}: no worker answers on task queue "${taskQueue}"`);
  });
}

function notes(seen: SeenResource): Text[] {
  const { resource, disagreement, strangers, keys, unqueued } = seen;
  return [
    ...(keys?.queued
      ? [text`${resource}: each key has its own queue: temporal-semaphore ls ${shellWord(resource)} --keys`]
      : []),
    ...(unqueued ? [red(text`${resource}: ${silenceOf(seen)}`)] : []),
    ...(disagreement ? [yellow(text`${resource}: ${disagreementLine(disagreement)}`)] : []),
    ...pausedIn(seen).map(({ what, advice }) => yellow(text`${what}. ${advice}`)),
    ...(strangers ? [red(text`${resource}: ${strangersLine(strangers)}`)] : []),
  ];
}

const HEAD = ['resource', 'held', 'of', 'waiting', 'longest', 'keys', 'set'];
const ALIGN: Align[] = ['left', 'right', 'right', 'right', 'right', 'left', 'left'];

function row(seen: SeenResource): unknown[] {
  const { resource, capacity, held, waiting, waiters, override, keys, problem, unqueued, slots } = seen;
  if (problem !== undefined) return [resource, '?', '?', '?', '', '', problem];
  const drained = slots.filter(({ state }) => state === 'drained').length;
  const first = waiters.map(({ since }) => since).sort((a, b) => a.getTime() - b.getTime())[0];
  return [
    resource,
    held,
    capacity ?? '?',
    waiting ?? unqueued?.length ?? '?',
    first ? sinceNow(first) : '',
    keys ? text`${keys.held} hold, ${keys.queued} with a queue` : '',
    override ? overrideNote(override) : drained > 0 ? `${drained} drained` : '',
  ];
}
