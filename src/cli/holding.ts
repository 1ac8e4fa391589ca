import { once } from 'node:events';
import { constants, readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { type Permit, PermitLostError, type PermitSet } from '../client';
import { messageOf } from '../client/server/errors';
import { FencingToken } from '../fencing';
import { EXIT, signalCode } from './exit-codes';
import { clockMs, Guard, type GuardOrder } from './guard';
import { ProcessGroup } from './process-group';
import { say } from './terminal';
import { text } from './text';
import { span } from './wording';

/** The permits under which a command runs. */
export type RunSet = Pick<PermitSet<readonly (Permit | Permit[])[]>, 'permits' | 'signal' | 'release' | 'confirmLoss'>;

export function permitsOf({ permits }: Pick<RunSet, 'permits'>): readonly Permit[] {
  return permits.flat();
}

/** `slot "0" of "gpu-pool", slot "a" of "licences"` */
export function slotsOf(set: Pick<RunSet, 'permits'>): string {
  return permitsOf(set)
    .map(({ resource, slot }) => `slot "${slot}" of "${resource}"`)
    .join(', ');
}

/** How long the processes that the command left behind may take to end after TERM. */
const LEFTOVERS_MS = 1_000;

/** The longest time between two orders to the guard. Each renewal must reach the guard before it would send TERM for the earlier lease. */
const BEAT_MS = 60_000;

// This process ends the command in the notice, which is the last part of the lease. The two numbers are shares of the notice, from its start.
/** When the guard sends TERM, if this process has not. */
const GUARD_PART = 0.2;
/** When the command gets KILL. */
const KILL_PART = 0.7;

/** How long the command may take to end after TERM when the permit has ended at the server: the slot may have its next holder. */
const ENDED_MS = 2_000;

/**
 * Runs a command under one or more permits, and ends its whole process group when the command ends or a permit is lost. The
 * command starts once its guard listens.
 *
 * @param interrupted has aborted when a signal came before the command starts
 * @returns the exit code
 * @throws the reason of `interrupted`; the command has not run then
 */
export async function runHolding(
  set: RunSet,
  command: string[],
  signals: Signals,
  interrupted: AbortSignal,
): Promise<number> {
  const guard = new Guard();
  await guard.ready;
  if (interrupted.aborted) guard.dismiss();
  interrupted.throwIfAborted(); // from here to `take`, nothing waits
  if (set.signal.aborted) {
    guard.dismiss();
    say(text`${messageOf(set.signal.reason)} The command was not run.`);
    return EXIT.busy;
  }
  const { noticeMs } = soonest(set);
  const graceMs = noticeMs * KILL_PART;
  const group = new ProcessGroup(command, environment(permitsOf(set)));
  const tellGuard = (isEnding: boolean) => {
    if (group.id !== undefined) guard.tell(orderFor(soonest(set), group.id, graceMs, isEnding));
  };
  tellGuard(false);
  group.begin(); // not earlier: killed before its guard knew of the group, this process left the command running
  const beat = setInterval(() => tellGuard(false), Math.min((noticeMs * GUARD_PART) / 2, BEAT_MS));
  signals.take((name) => group.signal(name));
  signals.stopWith(group, set);

  const first = await Promise.race([group.exit, lossOf(set)]);
  tellGuard(true);
  clearInterval(beat);
  await group.end(Math.min(graceMs, first === 'lost' ? longestGraceMs(set) : LEFTOVERS_MS));
  guard.dismiss();
  const code = await group.exit;
  // Read again: the signal checks the clock, and this process may have been stopped past the lease's end.
  return afterLoss(code, set.signal.reason);
}

/** The exit code of a command whose permit was lost: never 0. */
export function afterLoss(code: number, loss: unknown): number {
  if (!(loss instanceof PermitLostError)) return code;
  say(text`${loss.message}`);
  return code || signalCode('SIGTERM');
}

async function lossOf({ signal }: RunSet): Promise<'lost'> {
  if (!signal.aborted) await once(signal, 'abort');
  return 'lost';
}

/** While renewals fail, this process still holds the permit until the lease ends. */
function longestGraceMs({ signal: { reason } }: RunSet): number {
  return reason instanceof PermitLostError && reason.how === 'lease-expired' ? Number.POSITIVE_INFINITY : ENDED_MS;
}

/** The permit whose lease ends first. All permits come from the same flags, so their leases and notices are equally long. */
function soonest(set: RunSet): Permit {
  return permitsOf(set).reduce((first, permit) => (permit.deadline < first.deadline ? permit : first));
}

/** Tells the guard when the lease ends. A stopped process sends no more orders: the guard then takes the permit for lost. */
function orderFor(permit: Permit, group: number, graceMs: number, isEnding: boolean): GuardOrder {
  // The clock comes first: if this process is stopped between the two lines, the guard acts too early, never too late.
  const nowMs = clockMs();
  const endsAtMs = nowMs + permit.deadline.getTime() - Date.now();
  const noticeAtMs = endsAtMs - permit.noticeMs;
  return {
    group,
    ...(!isEnding && { termAtMs: noticeAtMs + permit.noticeMs * GUARD_PART }),
    killAtMs: noticeAtMs + graceMs,
    graceMs,
  };
}

/** The command's environment: ours, without the token of the dashboard, and with the permits' variables. */
function environment(permits: readonly Permit[]): NodeJS.ProcessEnv {
  const { TEMPORAL_SEMAPHORE_TOKEN: _secret, ...env } = process.env;
  const all = permits.map(({ resource, slot, workflowId, runId }) => ({
    resource,
    slot,
    workflowId,
    runId,
    fencingToken: FencingToken.from({ resource, slot, runId }).toString(),
  }));
  const [first] = all;
  return {
    ...env,
    PERMIT_RESOURCE: first?.resource,
    PERMIT_SLOT: first?.slot,
    PERMIT_WORKFLOW_ID: first?.workflowId,
    PERMIT_RUN_ID: first?.runId,
    PERMIT_FENCING_TOKEN: first?.fencingToken,
    PERMITS: JSON.stringify(all),
  };
}

/** Which bits of a file's flags say whether it is read or written. */
const O_ACCMODE = 3;

/** Signals for the command. (A terminal's Ctrl-C reaches this process alone: the command has a process group of its own.) */
const FORWARDED: NodeJS.Signals[] = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT', 'SIGUSR1', 'SIGUSR2'];

/** Gives the signals that this process receives to one taker at a time. */
export class Signals {
  private taker: (signal: NodeJS.Signals) => void = () => undefined;
  private stopped = () => {};
  private continued: () => unknown = () => undefined;
  private resized: () => unknown = () => undefined;

  constructor() {
    const isHangUpIgnored = isUnderNohup();
    for (const name of FORWARDED) process.on(name, () => (name === 'SIGHUP' && isHangUpIgnored) || this.taker(name));
    process.on('SIGTSTP', () => {
      this.stopped();
      process.kill(process.pid, 'SIGSTOP');
    });
    process.on('SIGCONT', () => this.continued());
    process.on('SIGWINCH', () => this.resized());
  }

  take(taker: (signal: NodeJS.Signals) => void): void {
    this.taker = taker;
  }

  async next(): Promise<NodeJS.Signals> {
    return await new Promise((resolve) => this.take(resolve));
  }

  /**
   * From now on, the command stops with this process (Ctrl-Z), goes on with it (fg), and is notified like it when the terminal's size
   * changes.
   */
  stopWith(group: ProcessGroup, set: RunSet): void {
    this.stopped = () => {
      // The group is in a separate session, in which TSTP has no effect.
      group.signal('SIGSTOP');
      const leftMs = soonest(set).deadline.getTime() - Date.now();
      say(
        `stopped, and the command with it. The lease keeps running: it ends in ${span(leftMs)}, and the command is killed before then.`,
      );
    };
    this.continued = () => group.signal('SIGCONT');
    this.resized = () => group.signal('SIGWINCH');
  }
}

/**
 * Whether a hang-up is to be ignored, as `nohup` wants. Node forgets at its start which signals were ignored. But most shells pass the
 * name of the program that they started, and if the input was a terminal, `nohup` replaces it with one that can't be read.
 */
function isUnderNohup(): boolean {
  if (basename(process.env._ ?? '') === 'nohup') return true;
  try {
    const [, flags = '0'] = /^flags:\t(\d+)$/m.exec(readFileSync('/proc/self/fdinfo/0', 'utf8')) ?? [];
    return (Number.parseInt(flags, 8) & O_ACCMODE) === constants.O_WRONLY;
  } catch {
    return false;
  }
}
