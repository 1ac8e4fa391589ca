/**
 * How many signals the queue has under way at once. The server takes 2,000; with more, the Workflow Task fails for ever. But a thousand
 * commands in one task, and their answers, take seconds.
 */
const MAX_SENDING = 64;

/** What the queue has sent and got no answer to. It continues as new only when no answer is due. */
export class Outbox {
  private sending = 0;

  /** @param answered is told of each answer */
  constructor(private readonly answered: () => void) {}

  /** How many messages may be sent now. */
  get room(): number {
    return MAX_SENDING - this.sending;
  }

  get isEmpty(): boolean {
    return this.sending === 0;
  }

  /** Sends without waiting for the answer. */
  send(message: () => Promise<unknown>): void {
    this.sending++;
    void message().then(() => {
      this.sending--;
      this.answered();
    });
  }
}
