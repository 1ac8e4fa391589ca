/**
 * How many signals the queue has under way at once. The server takes 2,000; with more, the Workflow Task fails indefinitely. But even a
 * thousand commands in one task, and their answers, take seconds.
 */
const MAX_SENDING = 64;

/** The messages of the queue without an answer yet. The queue continues as new only if no answer is due. */
export class Outbox {
  private sending = 0;

  /** @param answered called for each answer */
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
