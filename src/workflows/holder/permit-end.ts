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

/** Tells the holder of a permit how and when it ends. */
export interface PermitEndWatch {
  readonly how: Promise<PermitLoss>;
  /** The server says that the run has ended: a notice that has not come yet will not come any more. */
  gone(): void;
  /** Waits for the end. `false` when an adopter's wait was too long: the notice may be lost. */
  comes(): Promise<boolean>;
}

/** A permit's first holder is its parent: the server tells it of the end. */
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

/** How long an adopter waits for the end notice before it asks whether the permit still runs. */
const END_NOTICE_MS = 10_000;

/** A permit notifies its adopter when it ends. A terminated permit can't: then a renewal finds it gone. */
export function endOfAdopted(runId: string): PermitEndWatch {
  let ended = false;
  let end: (how: PermitLoss) => void = () => undefined;
  const how = new Promise<PermitLoss>((resolve) => {
    end = (loss) => {
      ended = true;
      resolve(loss);
    };
  });
  listenForEnd(runId, end);
  return {
    how,
    gone: () => end('unknown'),
    comes: () => CancellationScope.nonCancellable(() => condition(() => ended, END_NOTICE_MS)),
  };
}

function lossOf(error: unknown): PermitLoss {
  const cause = error instanceof ChildWorkflowFailure ? error.cause : error;
  if (cause instanceof TerminatedFailure) return 'terminated';
  if (cause instanceof TimeoutFailure) return 'timed-out';
  return 'failed';
}
