import {
  CancellationScope,
  ChildWorkflowFailure,
  condition,
  TerminatedFailure,
  TimeoutFailure,
} from '@temporalio/workflow';
import type { PermitLoss } from '../../shared/loss';
import type { PermitChild } from '../permit/claim';
import { listenForEnd } from './holder-inbox';

/** How the holder of a permit learns of its end. */
export interface PermitEndWatch {
  readonly how: Promise<PermitLoss>;
  /** The server says that the run has ended, so no word of it will come if none has yet. */
  gone(): void;
  /** Waits for the end; `false` after a while in which it did not come, where it may get lost. */
  comes(): Promise<boolean>;
}

/** A permit's first holder is its parent, which the server tells. */
export function endOfChild(child: PermitChild): PermitEndWatch {
  const how = child.result().catch(lossOf);
  return {
    how,
    gone: () => undefined,
    comes: async () => {
      await how;
      return true;
    },
  };
}

/** How long an adopter waits for the permit's last word before it asks whether the permit is still there. */
const LAST_WORD_MS = 10_000;

/** A permit tells its adopter that it ends. A terminated permit can't: then a renewal finds it gone. */
export function endOfAdopted(runId: string): PermitEndWatch {
  let ended = false;
  let end: (how: PermitLoss) => void = () => undefined;
  const how = new Promise<PermitLoss>((resolve) => {
    end = (loss) => {
      ended = true;
      resolve(loss);
    };
  });
  listenForEnd(runId, ({ outcome }) => end(outcome));
  return {
    how,
    gone: () => end('unknown'),
    comes: () => CancellationScope.nonCancellable(() => condition(() => ended, LAST_WORD_MS)),
  };
}

function lossOf(error: unknown): PermitLoss {
  const cause = error instanceof ChildWorkflowFailure ? error.cause : error;
  if (cause instanceof TerminatedFailure) return 'terminated';
  if (cause instanceof TimeoutFailure) return 'timed-out';
  return 'failed';
}
