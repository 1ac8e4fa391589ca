// What a message tells a user to type.

/** A name as a shell reads it. */
export function shellWord(name: string): string {
  return /^[\w@%+=:,./~-]+$/.test(name) ? name : `'${name.replaceAll("'", `'\\''`)}'`;
}

export function workerCommand(taskQueue: string): string {
  return `temporal-semaphore worker --task-queue ${shellWord(taskQueue)}`;
}

export function unpauseCommand(workflowId: string): string {
  return `temporal workflow unpause -w ${shellWord(workflowId)}`;
}
