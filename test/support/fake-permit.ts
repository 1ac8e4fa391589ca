import { type Grant, HeldPermit } from '../../src/shared/held-permit';
import type { PermitRef } from '../../src/shared/protocol';

type Watcher = Parameters<Grant<Error>['watch']>[0];

/** A run at no server. */
export class FakeGrant implements Grant<Error> {
  readonly ref: PermitRef;
  isHeld = true;
  isWanted = false;
  loss: Error | undefined;
  /** What the server says after the release. */
  late: Error | undefined;
  watcher: Watcher | undefined;
  /** For how long it was renewed, each time. */
  readonly renewals: (number | undefined)[] = [];

  constructor(
    readonly runId = 'run-0',
    /** When its lease ends. */
    private readonly deadlineMs = 0,
  ) {
    this.ref = { resource: 'gpus', slot: '0', workflowId: 'permit:gpus:0', runId, leaseMs: 1_000 };
  }

  watch(watcher: Watcher): void {
    this.watcher = watcher;
  }

  async renew(leaseMs: number | undefined): Promise<Date> {
    this.renewals.push(leaseMs);
    return new Date(this.deadlineMs);
  }

  async release(): Promise<void> {
    this.isHeld = false;
  }

  detach(): void {
    this.isHeld = false;
  }

  notHeld(): Error {
    return new Error('lost');
  }

  async confirmLoss(): Promise<Error | undefined> {
    return this.late;
  }
}

/** A permit whose grants are fakes; a holder that gives it up gets the next one at once. */
export class FakePermit extends HeldPermit<FakeGrant, Error> {
  readonly told: string[] = [];
  readonly made: FakeGrant[] = [];

  /** @param behind the permit of its key */
  constructor(
    first = new FakeGrant(),
    { atCheckpoints = false, behind }: { atCheckpoints?: boolean; behind?: FakeGrant } = {},
  ) {
    let count = 0;
    const lineUp = async () => {
      const next = new FakeGrant(`run-${++count}`);
      if (this.made.length < 10) this.made.push(next); // it must not remember them all
      return next;
    };
    super(first, { outlivesRun: true, atCheckpoints, behind, lineUp });
    this.take(first);
  }

  protected override onLost(error: Error): void {
    this.told.push(`lost: ${error.message}`);
  }

  protected override onWanted(error: Error, mustStop: boolean): void {
    this.told.push(`${mustStop ? 'must stop' : 'asked'}: ${error.message}`);
  }

  protected override check<T>(check: () => T): T {
    return check();
  }
}
