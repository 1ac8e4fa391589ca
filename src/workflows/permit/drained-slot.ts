import { workflowInfo } from '@temporalio/workflow';
import { parsePermitId, queueId } from '../../shared/permit-id';
import type { Holder } from '../../shared/protocol';
import { deliver, drainedSignal } from '../signals';
import { oneAtATime } from './one-at-a-time';

/**
 * A permit by which the queue keeps a slot out of use. A queue that was terminated can't release it, so the permit names itself to any
 * queue that asks. At the end of its lease it asks whether there is one: a pause holds over any outage of the permit workers.
 */
export class DrainedSlot {
  /** Answers the queue's `watch`. */
  readonly answer = oneAtATime(() => this.tell());

  private constructor(
    private readonly queue: string,
    private readonly slot: string,
  ) {}

  /** `undefined`: the holder is not the resource's own queue. */
  static of(holder: Holder | undefined): DrainedSlot | undefined {
    const { resource, slot } = parsePermitId(workflowInfo().workflowId) ?? {};
    const queue = resource && queueId(resource);
    return queue && slot && holder?.workflowId === queue ? new DrainedSlot(queue, slot) : undefined;
  }

  async hasQueue(): Promise<boolean> {
    return (await this.tell()) !== 'not-found';
  }

  private tell() {
    return deliver({ workflowId: this.queue }, drainedSignal, { slot: this.slot, runId: workflowInfo().runId });
  }
}
