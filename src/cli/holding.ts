import { type Permit, PermitLostError } from '../client';
import { FencingToken } from '../fencing';
import { signalCode } from './exit-codes';
import { Guard } from './guard';
import { clockMs } from './guard-order';
import { ProcessGroup } from './process-group';
import { say } from './render';
import type { Signals } from './signals';
import { text } from './text';

/** How long what the command left behind may take to end once asked. */
const LEFTOVERS_MS = 1_000;

/** How often the guard hears how long the lease goes, at the least. */
const BEAT_MS = 60_000;

// The last part of the lease, which the permit leaves for that, is its notice. Of it, counted from its beginning:
/** then the guard asks the command to end, if this process has not; */
const GUARD_PART = 0.2;
/** then the command is killed. */
const KILL_PART = 0.7;

/** A command that runs under a permit, and ends when it does or when the permit is lost. */
export class Holding {
  private readonly group: ProcessGroup;
  private readonly graceMs: number;
  private readonly beat: NodeJS.Timeout;
  private isEnding = false;

  /** Starts the command, once its guard listens. */
  static async start(permit: Permit, command: string[], signals: Signals): Promise<Holding> {
    const guard = new Guard();
    await guard.ready;
    return new Holding(guard, permit, command, signals);
  }

  private constructor(
    private readonly guard: Guard,
    private readonly permit: Permit,
    command: string[],
    signals: Signals,
  ) {
    const { noticeMs } = permit;
    this.graceMs = noticeMs * KILL_PART;
    this.group = new ProcessGroup(command, environment(permit));
    this.tellGuard();
    this.beat = setInterval(() => this.tellGuard(), Math.min(noticeMs / 2, BEAT_MS));
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
    this.isEnding = true;
    this.tellGuard();
    clearInterval(this.beat);
    await this.group.end(first === 'lost' ? this.graceMs : Math.min(LEFTOVERS_MS, this.graceMs));
    this.guard.dismiss();
    const code = await this.group.exit;
    // Read anew, and not from `signal`: it looks at the clock, and this process may have been stopped past the lease's end.
    const { reason } = this.permit.signal;
    if (!(reason instanceof PermitLostError)) return code;
    say(text`${reason.message}`);
    return code || signalCode('SIGTERM');
  }

  /** Tells the guard how long the lease goes. When a stopped process tells no more, the guard takes the permit for lost. */
  private tellGuard(): void {
    const group = this.group.id;
    if (group === undefined) return;
    // The clock first: should this process be stopped between the two lines, the guard hears too little and not too much.
    const nowMs = clockMs();
    const endsAtMs = nowMs + this.permit.deadline.getTime() - Date.now();
    const noticeAtMs = endsAtMs - this.permit.noticeMs;
    this.guard.tell({
      group,
      ...(!this.isEnding && { termAtMs: noticeAtMs + this.permit.noticeMs * GUARD_PART }),
      killAtMs: noticeAtMs + this.graceMs,
      graceMs: this.graceMs,
    });
  }
}

/** What the command gets to know. It has no use for the key of the live page. */
function environment(permit: Permit): NodeJS.ProcessEnv {
  const { TEMPORAL_SEMAPHORE_TOKEN: _secret, ...env } = process.env;
  return {
    ...env,
    PERMIT_RESOURCE: permit.resource,
    PERMIT_SLOT: permit.slot,
    PERMIT_WORKFLOW_ID: permit.workflowId,
    PERMIT_RUN_ID: permit.runId,
    PERMIT_FENCING_TOKEN: FencingToken.from(permit).toString(),
  };
}
