import { Client, Connection } from '@temporalio/client';
import type { Duration } from '@temporalio/common';
import type { Command } from 'commander';
import { PermitLostError, PermitTimeoutError } from '../client/errors';
import type { Permit } from '../client/permit';
import { SemaphoreClient } from '../client/semaphore-client';
import { type ConnectionFlags, connectConfig, withConnectionFlags } from './connection';
import { loadDataConverter } from './data-converter';
import { EXIT, signalCode } from './exit-codes';
import { Guard } from './guard';
import { ProcessGroup } from './process-group';

interface RunFlags extends ConnectionFlags {
  capacity?: number;
  slots?: string[];
  taskQueue: string;
  lease?: Duration;
  renewEvery?: Duration;
  maxHold?: Duration;
  timeout?: Duration;
  try?: true;
  fair?: true;
  priority?: number;
  fairnessKey?: string;
  purpose?: string;
}

/** What is passed on to the command. (A terminal's Ctrl-C reaches us alone: the command has a process group of its own.) */
const FORWARDED: NodeJS.Signals[] = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT', 'SIGUSR1', 'SIGUSR2'];

/** How long what the command left behind may take to end once asked. */
const LEFTOVERS_MS = 1_000;

/** Of the time between the loss and the lease's end, what the command gets before it is killed. */
const GRACE_PART = 0.7;

const HELP = `
The command gets PERMIT_RESOURCE, PERMIT_SLOT, PERMIT_WORKFLOW_ID and PERMIT_RUN_ID (the fencing token) in its environment.
The permit is renewed while it runs, and released when it has ended and nothing is left of its process group. When the
permit is lost, the group gets TERM, and KILL before the lease ends; likewise when this process is killed. What leaves the
process group (setsid) escapes; a stopped process (SIGSTOP) renews nothing.

Exit code: the command's own, 128+n when signal n ended it; after a loss never 0.
  ${EXIT.busy}  no permit: full (--try), or none came free in time (--timeout)
  ${EXIT.usage}  wrong usage      ${EXIT.unavailable}  the server can't be reached, or refuses
  ${EXIT.notExecutable} the command can't be executed      ${EXIT.notFound} no such command

Example:
  temporal-semaphore run gpu-pool --capacity 3 --timeout 5m -- sh -c 'train --gpu "$PERMIT_SLOT"'
`;

export function addRun(program: Command, done: (exitCode: number) => void): void {
  const run = program
    .command('run <resource> <command...>')
    .summary('run a command under a permit')
    .description(
      'Waits for a permit of <resource>, runs the command under it, and gives it back: flock across machines.',
    )
    .usage('<resource> (--capacity <n> | --slots <names>) [options] -- <command> [args...]')
    .option('--capacity <n>', 'how many permits there are; everybody who uses the resource must say the same', Number)
    .option('--slots <names>', 'named slots instead, separated by commas', (names: string) => names.split(','))
    .option('--task-queue <name>', "the permit worker's task queue", 'permits')
    .option('--lease <duration>', 'how long the permit lives on when this process dies (default: 30s)')
    .option('--renew-every <duration>', 'how often the lease is renewed (default: a third of it)')
    .option('--max-hold <duration>', 'the server ends the permit after that (default: as long as renewals can go on)')
    .option('--timeout <duration>', 'how long to wait for a permit (default: for ever)')
    .option('--try', 'do not wait')
    .option('--fair', 'never overtake who waits already')
    .option('--priority <n>', 'who waits is served by this, 1 first (default: 3)', Number)
    .option('--fairness-key <key>', 'within one priority, keys get equal shares')
    .option('--purpose <text>', 'shown to operators beside the holder')
    .addHelpText('after', HELP)
    .action(async (resource: string, command: string[], flags: RunFlags) => {
      done(await runUnderPermit(resource, command, flags));
    });
  withConnectionFlags(run);
}

async function runUnderPermit(resource: string, command: string[], flags: RunFlags): Promise<number> {
  const { connectionOptions, namespace } = connectConfig(flags);
  const { capacity, slots, taskQueue, lease, renewEvery, maxHold, fair } = flags;
  const connection = Connection.lazy(connectionOptions);
  const client = new Client({ connection, namespace, dataConverter: await loadDataConverter(flags.dataConverter) });
  const semaphore = { capacity, slots, taskQueue, lease, renewEvery, maxHold, fair };
  const pool = new SemaphoreClient(client, resource, semaphore);
  await connection.ensureConnected();
  const signals = new Signals();
  const permit = await acquire(pool, flags, signals);
  if (typeof permit === 'number') return permit;
  try {
    return await new Holding(permit, command, signals).end();
  } finally {
    await permit.release();
  }
}

/** The permit, or the exit code. */
async function acquire(pool: SemaphoreClient, flags: RunFlags, signals: Signals): Promise<Permit | number> {
  const { timeout, purpose, priority, fairnessKey } = flags;
  const interrupted = new AbortController();
  signals.take((name) => interrupted.abort(new Interrupted(name)));
  try {
    return await pool.acquire({
      timeout: flags.try ? 0 : timeout,
      purpose,
      priority: { priorityKey: priority, fairnessKey },
      signal: interrupted.signal,
    });
  } catch (error) {
    if (error instanceof Interrupted) return signalCode(error.signal);
    if (!(error instanceof PermitTimeoutError)) throw error;
    console.error(`temporal-semaphore: ${error.message}`);
    return EXIT.busy;
  }
}

class Interrupted extends Error {
  constructor(readonly signal: NodeJS.Signals) {
    super(`Interrupted by ${signal}`);
  }
}

/** Hands the signals that this process gets to one taker at a time. */
class Signals {
  private taker: (signal: NodeJS.Signals) => void = () => undefined;

  constructor() {
    for (const name of FORWARDED) process.on(name, () => this.taker(name));
  }

  take(taker: (signal: NodeJS.Signals) => void): void {
    this.taker = taker;
  }
}

/** A command that runs under a permit, and ends when it does or when the permit is lost. */
class Holding {
  private readonly guard: Guard;
  private readonly group: ProcessGroup;
  private readonly graceMs: number;

  constructor(
    private readonly permit: Permit,
    command: string[],
    signals: Signals,
  ) {
    const { resource, slot, workflowId, runId } = permit;
    this.graceMs = permit.noticeMs * GRACE_PART;
    this.guard = new Guard(this.graceMs);
    this.group = new ProcessGroup(command, {
      ...process.env,
      PERMIT_RESOURCE: resource,
      PERMIT_SLOT: slot,
      PERMIT_WORKFLOW_ID: workflowId,
      PERMIT_RUN_ID: runId,
    });
    if (this.group.id !== undefined) this.guard.watch(this.group.id);
    signals.take((name) => this.group.signal(name));
  }

  /** Waits for the end of the whole group. @returns the exit code */
  async end(): Promise<number> {
    const { signal } = this.permit;
    const lost = new Promise<'lost'>((resolve) => {
      if (signal.aborted) resolve('lost');
      else signal.addEventListener('abort', () => resolve('lost'));
    });
    const first = await Promise.race([this.group.exit, lost]);
    await this.group.end(first === 'lost' ? this.graceMs : Math.min(LEFTOVERS_MS, this.graceMs));
    this.guard.dismiss();
    const code = await this.group.exit;
    if (!(signal.reason instanceof PermitLostError)) return code;
    console.error(`temporal-semaphore: ${signal.reason.message}`);
    return code || signalCode('SIGTERM');
  }
}
