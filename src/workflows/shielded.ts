import { CancellationScope } from '@temporalio/workflow';

let shield: CancellationScope | undefined;

/**
 * Runs what is not to be stopped by a cancellation, as `CancellationScope.nonCancellable` does. One scope serves the whole Workflow: a
 * new one would make five more promises, and for each promise the SDK keeps a stack trace, which takes longer than all else here.
 */
export function shielded<T>(act: () => Promise<T>): Promise<T> {
  shield ??= new CancellationScope({ cancellable: false });
  return shield.run(act);
}
