import { condition } from '@temporalio/workflow';
import { parsePermitId, queueId } from '../../shared/permit-id';
import type { EndedNotice, Holder, WatchInput } from '../../shared/protocol';
import { isSignalTarget, type SignalTarget } from '../../shared/wire-input';
import { closingSignal, deliver, deliverAfterReset, endedSignal, revokedSignal } from '../signals';

/** The key of the holder's notice. The key of the queue's notice is its Workflow ID. */
const HOLDER = 'holder';

/** A permit has two recipients or three, and an honest queue asks it once or twice while it ends. */
const MAX_NOTICES = 10;

/**
 * Who is notified that a permit ends: its parent, its adopter, its queue. A recipient that is added while notices go out is notified too, and
 * a known recipient is notified again: a delivered `watch` promises a notice.
 */
export class EndNotices {
  private readonly notices = new Map<string, () => Promise<unknown>>();

  /**
   * @param end tells how the permit has ended; called only then
   * @param releasedBy which holder has released the permit; called only then
   */
  constructor(
    private readonly end: () => EndedNotice,
    private readonly releasedBy: () => string | undefined,
  ) {}

  /** Tells the parent why the permit was revoked. The server itself notifies the parent of the end. */
  toParent(holder: Holder | undefined): void {
    this.set(HOLDER, holder, async (target) => {
      const { outcome, ...notice } = this.end();
      if (outcome === 'revoked') await deliverAfterReset(target, revokedSignal, notice);
    });
  }

  /** Tells the adopter how the permit ends. It is the holder from now on. */
  toAdopter(adopter: Holder): void {
    this.set(HOLDER, adopter, (target) => deliverAfterReset(target, endedSignal, this.end()));
  }

  /** Notifies the queue of the permit's own resource, and no other: a thousand notices, one by one, would keep the slot meanwhile. */
  toQueue(watch: unknown): void {
    const { workflowId, runId } = this.end();
    const { resource = '', slot = '' } = parsePermitId(workflowId) ?? {};
    const own = queueId(resource);
    if ((watch as Partial<WatchInput> | undefined)?.queueId !== own) return;
    this.set(own, { workflowId: own }, (target) =>
      deliver(target, closingSignal, { slot, runId, releasedBy: this.releasedBy() }),
    );
  }

  /**
   * Sends all notices. A recipient that misses its notice has ended or finds out itself: a holder by the permit's end, a queue by its
   * probes. A recipient that asks again gets another notice at once: the server refuses signals to a Workflow that is about to continue
   * as new, and may keep the first notice for seconds. The number of notices is bounded, because the slot is held meanwhile.
   */
  async send(): Promise<void> {
    let sent = 0;
    for (const [recipient, notice] of this.notices) {
      if (sent++ === MAX_NOTICES) return;
      await Promise.race([notice(), condition(() => this.notices.get(recipient) !== notice)]);
    }
  }

  private set(recipient: string, target: Holder | undefined, notice: (target: SignalTarget) => Promise<unknown>): void {
    this.notices.delete(recipient);
    // A client learns of the end from its long poll. A malformed target would fail our task.
    if (isSignalTarget(target)) this.notices.set(recipient, () => notice(target));
  }
}
