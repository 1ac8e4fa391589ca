import { log } from '@temporalio/workflow';
import { readPreemptible } from '../../shared/wire-input';
import { onSignal } from '../signal-inbox';
import { preemptibleSignal } from '../signals';
import type { PreemptingQueueState } from './preempting-queue-state';

/** Lets permits say that their holders may have to give way. */
export function acceptAnswers(state: PreemptingQueueState, changed: () => void): void {
  onSignal(preemptibleSignal, (payload) => {
    changed();
    const notice = readPreemptible(payload);
    if (notice) state.preemptible(notice, Date.now());
    else log.warn('A malformed signal was left out.', { signal: preemptibleSignal.name, type: typeof payload });
  });
}
