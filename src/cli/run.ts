import { setTimeout as delay } from 'node:timers/promises';
import type { Client } from '@temporalio/client';
import { type Command, Option } from 'commander';
import {
  acquireAll,
  InvalidOptionsError,
  LineFullError,
  type PermitLostError,
  PermitTimeoutError,
  SemaphoreClient,
} from '../client';
import { soon } from '../client/server/clock';
import { messageOf } from '../client/server/errors';
import { DEFAULT_TASK_QUEUE } from '../shared/protocol';
import { type AlsoFlag, alsoFlag, durationOption, wholeNumber, withSlotFlags } from './arguments';
import { type ConnectionFlags, withClient, withConnectionFlags } from './connection';
import { EXIT } from './exit-codes';
import { afterLoss, type RunSet, runHolding, Signals, slotsOf } from './holding';
import { Interrupted, say } from './terminal';
import { text } from './text';
import { tellSlowRelease, tellUntaken, whyNotFree } from './unanswered';
import { placeNote, tellWhatItWaitsFor, type WantedResource } from './waiting';

interface RunFlags extends ConnectionFlags {
  capacity?: number;
  slots?: string[];
  also?: AlsoFlag[];
  perKey?: number;
  key?: string;
  permits?: number;
  pace?: number;
  taskQueue: string;
  lease?: number;
  renewEvery?: number;
  maxHold?: number;
  timeout?: number;
  try?: true;
  maxWaiting?: number;
  whenFull?: 'refuse' | 'drop-oldest';
  fair?: true;
  priority?: number;
  fairnessKey?: string;
  purpose?: string;
}

/** How long a release may still take when a signal has come. */
const LAST_MS = 1_000;

/** How long this process waits for the server to take back a permit that came too late. */
const GIVE_BACK_MS = 5_000;

const HELP = `
The command inherits the environment of run, except TEMPORAL_SEMAPHORE_TOKEN
(the dashboard's token). It also gets PERMIT_RESOURCE, PERMIT_SLOT,
PERMIT_WORKFLOW_ID, PERMIT_RUN_ID and PERMIT_FENCING_TOKEN. The fencing token is
<resource>/<slot>/<run ID>: pass it to the service that must refuse late writes.
With --also, these variables describe the permit of <resource>. PERMITS contains
all permits as JSON, in the order of the command line:
  [{"resource", "slot", "workflowId", "runId", "fencingToken"}, ...]
The command also inherits TEMPORAL_API_KEY. To keep the API key from it, use
-- env -u TEMPORAL_API_KEY <command>.

run renews the permit while the command runs, and releases it when the command's
whole process group has ended. If the permit is lost or can't be renewed, the
group gets SIGTERM, and then SIGKILL by the time at which the lease would have
ended. The same happens if run is killed, or stays stopped (Ctrl-Z) until the
lease is about to end. A process that leaves the group (setsid) gets neither
signal. The command has no controlling terminal. Under nohup, run ignores a
hang-up.

Exit code: the command's own; 128+n if signal n ended it; never 0 after the
permit was lost.
  ${EXIT.busy}   no permit: all slots are held (--try), none came free in time
       (--timeout), or the queue is full (--max-waiting)
  ${EXIT.usage}   wrong usage
  ${EXIT.unavailable}   the server can't be reached, or refuses the request; or no permit came
       (--try, --timeout), and no permit worker polls the task queue
  ${EXIT.notExecutable}  the command can't be executed
  ${EXIT.notFound}  no such command

Examples:
  temporal-semaphore run gpu-pool --capacity 3 --timeout 5m -- \\
    sh -c 'train --gpu "$PERMIT_SLOT"'
  temporal-semaphore run nightly --capacity 1 --try -- ./backup.sh --full
  temporal-semaphore run gpu-pool --capacity 3 --also licences=5 -- simulate
  temporal-semaphore run openai --capacity 20 --per-key 2 --key "$TENANT" -- \\
    ./ask.sh
`;

export function addRun(program: Command, done: (exitCode: number) => void, command?: string[]): void {
  const run = program
    .command('run <resource>')
    .summary('run a command under a permit')
    .description(
      'Waits for a permit of <resource>, runs the command under it, and then releases it: like flock, but across machines.',
    )
    .usage('<resource> --capacity <n> [options] -- <command>');
  withSlotFlags(
    run,
    'how many permits there are; all callers must give the same number',
    'the names of the slots, separated by commas, instead of --capacity',
  )
    .option(
      '--also <resource=slots>',
      'also take a permit of this resource; run takes all permits or none. licences=5 means 5 slots, gpus=a,b names the slots; may be repeated',
      alsoFlag,
    )
    .addOption(
      new Option(
        '--per-key <n>',
        'how many permits of <resource> each key may have (with --key); all callers must give the same number',
      ).argParser(wholeNumber),
    )
    .addOption(
      durationOption(
        '--pace <duration>',
        'the shortest time between two starts on one slot of <resource>; all callers must give the same time',
        undefined,
        1,
      ),
    )
    .addOption(
      new Option('--permits <n>', 'take n permits of <resource>: either all n or none (default: 1)').argParser(
        wholeNumber,
      ),
    )
    .option('--key <key>', 'the tenant or customer that the permit is for (with --per-key)')
    .option('--task-queue <name>', "the permit worker's task queue", DEFAULT_TASK_QUEUE)
    .addOption(
      durationOption('--lease <duration>', 'how long the permit stays taken if this process dies (default: 30s)'),
    )
    .addOption(
      durationOption('--renew-every <duration>', 'how often to renew the lease (default: a third of the lease)'),
    )
    .addOption(
      durationOption(
        '--max-hold <duration>',
        'how long the permit may be held before the server ends it (default: 24h, or less if the renewals would be too many: 18h with a lease of 30s)',
      ),
    )
    .addOption(durationOption('--timeout <duration>', 'how long to wait for a permit (default: indefinitely)'))
    .option(
      '--try',
      `do not wait: fail (exit code ${EXIT.busy}, or ${EXIT.unavailable} without a permit worker) if no permit is free`,
    )
    .addOption(
      new Option('--max-waiting <n>', `fail (exit code ${EXIT.busy}) if n callers are waiting already`).argParser(
        wholeNumber,
      ),
    )
    .addOption(
      new Option(
        '--when-full <what>',
        `with --max-waiting: what to do if the queue is full. refuse: this caller fails; drop-oldest: the oldest waiter of the lowest priority fails instead (exit code ${EXIT.busy}) (default: refuse)`,
      ).choices(['refuse', 'drop-oldest']),
    )
    .option('--fair', 'never overtake a waiter')
    .option('--priority <n>', 'the priority in the queue; 1 is served first (default: 3)', Number)
    .option('--fairness-key <key>', 'among callers of the same priority, each key gets an equal share of turns')
    .option('--purpose <text>', 'a description of the work, shown to operators next to the holder')
    // Otherwise commander complains about the command's words, and does not say that -- is missing.
    .allowExcessArguments(command === undefined)
    .allowUnknownOption(command === undefined)
    .addHelpText('after', HELP)
    .action(async (resource: string, flags: RunFlags) => {
      done(await runUnderPermit(resource, command, flags));
    });
  withConnectionFlags(run);
}

async function runUnderPermit(resource: string, command: string[] | undefined, flags: RunFlags): Promise<number> {
  if (command === undefined) {
    throw new InvalidOptionsError(
      'put -- before the command: flags before it belong to this program, everything after it to the command.',
    );
  }
  if (command.length === 0) throw new InvalidOptionsError('the command is missing after the --.');
  const { capacity, slots, perKey, also = [], taskQueue, lease, renewEvery, maxHold, fair } = flags;
  if (capacity === undefined && slots === undefined) {
    throw new InvalidOptionsError(
      'give --capacity (how many permits there are, the same number as all other callers) or --slots (their names).',
    );
  }
  const options = { taskQueue, lease, renewEvery, maxHold, fair };
  const pace = flags.pace === undefined ? undefined : { every: flags.pace };
  const wanted: WantedResource[] = [
    { resource, capacity, slots, perKey, pace, key: flags.key, permits: flags.permits },
    ...also,
  ];
  const semaphoresOf = (client: Client) =>
    wanted.map(
      ({ resource, key: _key, permits: _permits, ...slots }) =>
        new SemaphoreClient(client, resource, { ...options, ...slots }),
    );
  return await withClient(
    flags,
    async (client) => {
      const signals = new Signals();
      const interrupted = new AbortController();
      signals.take((name) => interrupted.abort(new Interrupted(name)));
      const semaphores = semaphoresOf(client);
      let permits: RunSet | number | undefined;
      try {
        permits = await acquire(semaphores, wanted, client, flags, interrupted.signal);
      } finally {
        if (typeof permits !== 'object') await giveBack(semaphores, signals);
      }
      if (typeof permits === 'number') return permits;
      return await hold(permits, command, { client, taskQueue, signals, interrupted: interrupted.signal });
    },
    semaphoresOf,
  );
}

interface Holding {
  client: Client;
  taskQueue: string;
  signals: Signals;
  interrupted: AbortSignal;
}

/** Runs the command, and releases. @returns the exit code @throws Interrupted before the command starts */
async function hold(permits: RunSet, command: string[], holding: Holding): Promise<number> {
  const { client, taskQueue, signals, interrupted } = holding;
  let lateLoss: PermitLostError | undefined;
  let code: number | undefined;
  const over = new AbortController();
  void tellUntaken(permits, client, taskQueue, over.signal);
  try {
    code = await runHolding(permits, command, signals, interrupted);
  } finally {
    over.abort();
    const isKnown = permits.signal.aborted;
    // The command has ended, so a signal is for us: it ends the wait for a server that does not answer.
    const released = release(permits, code, holding);
    const loss = await Promise.race([released, signals.next().then(() => giveUp(permits))]);
    if (!isKnown) lateLoss = loss;
  }
  return afterLoss(code, lateLoss);
}

/** Gives back late permits before this process ends: a slot that a slow server still gives it would stay taken for a lease. A signal ends the wait. */
async function giveBack(semaphores: readonly SemaphoreClient[], signals: Signals): Promise<void> {
  const closed = Promise.all(semaphores.map((semaphore) => semaphore.close()));
  await soon(Promise.race([closed, signals.next()]), GIVE_BACK_MS);
}

/** The exit code if no permit came in time; this has said so. @throws Interrupted */
async function acquire(
  semaphores: SemaphoreClient[],
  wanted: readonly WantedResource[],
  client: Client,
  flags: RunFlags,
  interrupted: AbortSignal,
): Promise<RunSet | number> {
  const { timeout, purpose, priority, fairnessKey } = flags;
  const over = new AbortController();
  if (!flags.try) void tellWhatItWaitsFor(wanted, client, over.signal);
  try {
    const [first, ...others] = semaphores as [SemaphoreClient, ...SemaphoreClient[]];
    const set = await acquireAll([{ of: first, key: flags.key, permits: flags.permits ?? 1 }, ...others], {
      timeout: flags.try ? 0 : timeout,
      maxWaiting: flags.maxWaiting,
      whenFull: flags.whenFull,
      purpose,
      priority: { priorityKey: priority, fairnessKey },
      signal: interrupted,
    });
    return set;
  } catch (error) {
    if (!(error instanceof PermitTimeoutError || error instanceof LineFullError)) throw error;
    if (error.cause !== undefined) throw error; // whether a slot is free is unknown: the server could not be reached
    say(text`${error.message} ${placeNote(client)}`);
    // Without a worker, a retry finds the slots held even if all work is done: a cron job must not take that for a busy slot.
    return error instanceof PermitTimeoutError && error.unpolled !== undefined ? EXIT.unavailable : EXIT.busy;
  } finally {
    over.abort();
  }
}

/**
 * The command has ended, and its exit code counts. This reports a release that fails: the lease then ends the permit.
 * @returns a loss that came before the release, and of which the server tells only now
 */
async function release(
  set: RunSet,
  code: number | undefined,
  { client, taskQueue }: Holding,
): Promise<PermitLostError | undefined> {
  const over = new AbortController();
  const ended = code === undefined ? 'the command was not run' : `the command has ended with exit code ${code}`;
  const slow = tellSlowRelease(set, ended, client, taskQueue, over.signal);
  try {
    await set.release();
    over.abort();
    const why = (await slow) ? await whyNotFree(set, client, taskQueue) : undefined;
    if (why !== undefined) tellNotFree(set, why);
  } catch (error) {
    tellNotFree(set, messageOf(error));
  } finally {
    over.abort();
  }
  return await set.confirmLoss();
}

async function giveUp(set: RunSet): Promise<undefined> {
  await delay(LAST_MS);
  tellNotFree(set, 'a signal has ended the wait for the server. The permit ends with its lease.');
}

function tellNotFree(set: RunSet, why: string): void {
  say(text`${slotsOf(set)} is not free yet: ${why}`);
}
