import { condition } from '@temporalio/workflow';
import type { EndedNotice } from '../../shared/adoption-protocol';
import { parsePermitId, queueId } from '../../shared/permit-id';
import type { Holder, WatchInput } from '../../shared/protocol';
import { isSignalTarget, type SignalTarget } from '../../shared/wire-input';
import { closingSignal, deliver, deliverAfterReset, endedSignal, revokedSignal } from '../signals';

/** The key of the holder's notice. The queue's is its Workflow ID. */
const HOLDER = 'holder';

/** A permit has two recipients or three, and an honest queue asks it once or twice while it ends. */
const MAX_NOTICES = 10;

/**
 * The recipients of a permit's end: its parent, its adopter, its queue. Recipients added while notices go out are still
 * notified, and notified again if they were there already. A delivered `watch` promises that.
 */
export class EndNotices {
  private readonly endNotices = new Map<string, () => Promise<unknown>>();

  /** @param end tells how the permit has ended; called only then */
  constructor(private readonly end: () => EndedNotice) {}

  /** Tells the parent why the permit was revoked. Of the end itself, the server tells it. */
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

  /** Tells the queue of the permit's own resource, and no other: telling a thousand, one by one, would keep the slot meanwhile. */
  toQueue(watch: unknown): void {
    const { workflowId, runId } = this.end();
    const { resource = '', slot = '' } = parsePermitId(workflowId) ?? {};
    const own = queueId(resource);
    if ((watch as Partial<WatchInput> | undefined)?.queueId !== own) return;
    this.set(own, { workflowId: own }, (target) => deliver(target, closingSignal, { slot, runId }));
  }

  /**
   * Sends all notices. A recipient that misses one has ended or finds out itself: a holder by our end, a queue by its probes. A
   * recipient that asks again gets another notice at once: the server refuses signals to a Workflow that is about to continue as
   * new, and may keep the first one for seconds. But that has an end, because the slot is held meanwhile.
   */
  async send(): Promise<void> {
    let sent = 0;
    for (const [recipient, notice] of this.endNotices) {
      if (sent++ === MAX_NOTICES) return;
      await Promise.race([notice(), condition(() => this.endNotices.get(recipient) !== notice)]);
    }
  }

  private set(who: string, target: Holder | undefined, notice: (target: SignalTarget) => Promise<unknown>): void {
    this.endNotices.delete(who);
    // A client learns of the end by its long poll. A malformed target would fail our task.
    if (isSignalTarget(target)) this.endNotices.set(who, () => notice(target));
  }
}
