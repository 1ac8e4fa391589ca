import { ChildWorkflowFailure, condition, sleep, TerminatedFailure, TimeoutFailure } from '@temporalio/workflow';
import { type BackoffPolicy, backoffMs } from '../../shared/backoff';
import type { PermitLoss } from '../../shared/loss';
import type { PermitRef } from '../../shared/protocol';
import type { PermitChild } from '../permit/claim';
import { shielded } from '../shielded';
import { release } from '../signals';
import { listenForEnd } from './holder-inbox';

/** Tells the holder of a permit how and when it ends. */
export interface PermitEndWatch {
  readonly how: Promise<PermitLoss>;
  /** The server says that the run has ended: a notice that has not come yet will not come any more. */
  gone(): void;
  /** Waits, after a release, until the run has ended, so that its slot is free. Cancelling the caller does not stop it. */
  closed(): Promise<void>;
}

/** A permit's first holder is its parent: the server tells it of the end. */
export function endOfChild(child: PermitChild): PermitEndWatch {
  const how = child.result().catch(lossOf);
  return {
    how,
    gone: () => undefined,
    closed: async () => {
      await how;
    },
  };
}

/** How long an adopter waits for the end notice before it asks whether the permit still runs. */
const END_NOTICE_MS = 10_000;

/** A permit ends in the Workflow Task after its notice: mostly the first question finds it gone. */
const CLOSING: BackoffPolicy = { baseMs: 50, maxMs: END_NOTICE_MS, factor: 2, jitter: 0 };

/** A permit notifies its adopter when it is about to end. A terminated permit can't: then a renewal finds it gone. */
export function endOfAdopted(permit: PermitRef): PermitEndWatch {
  let told = false;
  let isGone = false;
  let end: (how: PermitLoss) => void = () => undefined;
  const how = new Promise<PermitLoss>((resolve) => {
    end = (loss) => {
      told = true;
      resolve(loss);
    };
  });
  listenForEnd(permit.runId, end);
  const gone = () => {
    isGone = true;
    end('unknown');
  };
  const closed = async () => {
    await condition(() => told, END_NOTICE_MS);
    for (let asked = 0; !isGone; asked++) {
      if ((await release(permit)) === 'not-found') gone();
      else await sleep(backoffMs(asked, 0, CLOSING));
    }
  };
  return { how, gone, closed: () => shielded(closed) };
}

function lossOf(error: unknown): PermitLoss {
  const cause = error instanceof ChildWorkflowFailure ? error.cause : error;
  if (cause instanceof TerminatedFailure) return 'terminated';
  if (cause instanceof TimeoutFailure) return 'timed-out';
  return 'failed';
}
