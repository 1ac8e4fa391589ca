/** A Workflow Execution as the server describes or lists it. */
export interface HasStatus {
  readonly status: { readonly code?: number; readonly name: string };
}

/** The server's number for a paused Workflow. An SDK that is older than Workflow Pause has no name for it. */
const PAUSED = 8;

/**
 * Whether the Workflow was paused on the server (Workflow Pause, server 1.30). It keeps its ID and takes signals, but runs no code until it
 * is unpaused. Servers 1.30 and 1.31 may turn the status of a paused Workflow back to `RUNNING`: then it goes on, and can't be unpaused.
 */
export function isPaused({ status }: HasStatus): boolean {
  return status.name === 'PAUSED' || status.code === PAUSED;
}

/** Whether the Workflow has not ended: it runs, or is paused. While a permit's Workflow is open, the permit is held. */
export function isOpen(run: HasStatus): boolean {
  return run.status.name === 'RUNNING' || isPaused(run);
}
