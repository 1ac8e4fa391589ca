import { workflowInfo } from '@temporalio/workflow';

/**
 * A run's length at which the queue looks for a good moment to continue as new. The server suggests it at 4,096 only. But a
 * worker that has lost the run from its cache replays all of it before the next turn.
 */
const LONG_EVENTS = 500;

/** … and at which it waits for no good moment any more. The server ends a run of 51,200 events, or of 50 MB. */
const OVERLONG = { events: 3_000, bytes: 16_000_000 };

/**
 * Says when the queue is to continue as new. The server rejects that step if a signal came while the task was under way, and
 * the worker then replays the whole run. So the queue tries it in a task that brought only one thing: then signals come
 * slowly. The task after a rejected one always brings more, and so is an ordinary one.
 */
export class RunLength {
  private task = 0;
  private came = 0;

  /** @param came how much has happened since this was asked last, which may be in the same task */
  look(came: number): { isOverlong: boolean; mayContinueAsNew: boolean } {
    const { historyLength, historySize, continueAsNewSuggested } = workflowInfo();
    if (historyLength !== this.task) this.came = 0;
    this.task = historyLength;
    this.came += came;
    const isOverlong = historyLength >= OVERLONG.events || historySize >= OVERLONG.bytes;
    const isLong = continueAsNewSuggested || historyLength >= LONG_EVENTS;
    return { isOverlong, mayContinueAsNew: isOverlong || (isLong && this.came <= 1) };
  }
}
