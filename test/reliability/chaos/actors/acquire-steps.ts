/** (Module state belongs to one Workflow: its sandbox loads modules anew.) */
let plan: { step: number; after: boolean; cancel: () => void } | undefined;
let steps = 0;

/** From now on commands are counted, and the one that the plan names is cancelled; `undefined` ends that. */
export function onAcquireStep(next: typeof plan): void {
  plan = next;
  steps = 0;
}

/** Called around each command that an acquire gives. */
export async function acquireStep<T>(command: () => Promise<T>): Promise<T> {
  const due = plan && ++steps === plan.step ? plan : undefined;
  if (due && !due.after) due.cancel();
  const answer = command();
  if (due?.after) due.cancel();
  return await answer;
}
