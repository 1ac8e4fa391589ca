import type { EndedNotice } from '../../shared/adoption-protocol';
import { parsePermitId, queueId } from '../../shared/permit-id';
import type { Holder, WatchInput } from '../../shared/protocol';
import { isSignalTarget, type SignalTarget } from '../../shared/wire-input';
import { closingSignal, deliver, endedSignal, revokedSignal } from '../signals';

/** The key of the holder's notice. The queue's is its Workflow ID. */
const HOLDER = 'holder';

/**
 * Whom a permit tells that it is about to end. Who is put in while it says good-bye is still told, and told again if it was
 * there already: a `watch` that was delivered promises that.
 */
export class EndNotices {
  private readonly endNotices = new Map<string, () => Promise<unknown>>();

  /** @param end how the permit ended, read when it has */
  constructor(private readonly end: () => EndedNotice) {}

  /** A holder that started the permit learns of its end by itself, but not why it was revoked. */
  toParent(holder: Holder | undefined): void {
    this.set(HOLDER, holder, async (target) => {
      const { outcome, ...notice } = this.end();
      if (outcome === 'revoked') await deliver(target, revokedSignal, notice);
    });
  }

  /** Who has adopted the permit is the holder from now on. */
  toAdopter(adopter: Holder): void {
    this.set(HOLDER, adopter, (target) => deliver(target, endedSignal, this.end()));
  }

  /** Only the queue of the permit's own resource: a thousand others would keep the slot while they are told one by one. */
  toQueue(watch: unknown): void {
    const { workflowId, runId } = this.end();
    const { resource = '', slot = '' } = parsePermitId(workflowId) ?? {};
    const own = queueId(resource);
    if ((watch as Partial<WatchInput> | undefined)?.queueId !== own) return;
    this.set(own, { workflowId: own }, (target) => deliver(target, closingSignal, { slot, runId }));
  }

  /** Whoever can't be told has ended, or finds out by itself: the holder by our end, a queue by its probes. */
  async say(): Promise<void> {
    for (const notice of this.endNotices.values()) await notice();
  }

  private set(who: string, target: Holder | undefined, notice: (target: SignalTarget) => Promise<unknown>): void {
    this.endNotices.delete(who);
    // A holder outside Workflows is told by the end of its long poll. And a target that is none would fail our task.
    if (isSignalTarget(target)) this.endNotices.set(who, () => notice(target));
  }
}
