/** The error's message and those of its causes: the SDK's errors say what failed, and their causes say why. */
export function messageOf(error: unknown): string {
  const messages: string[] = [];
  for (let cause = error; cause instanceof Error; cause = cause.cause) messages.push(cause.message);
  return messages.join(': ') || String(error);
}
