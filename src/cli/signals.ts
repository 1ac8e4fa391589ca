/** What is passed on to the command. (A terminal's Ctrl-C reaches us alone: the command has a process group of its own.) */
const FORWARDED: NodeJS.Signals[] = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT', 'SIGUSR1', 'SIGUSR2'];

/** Hands the signals that this process gets to one taker at a time. */
export class Signals {
  private taker: (signal: NodeJS.Signals) => void = () => undefined;

  constructor() {
    for (const name of FORWARDED) process.on(name, () => this.taker(name));
  }

  take(taker: (signal: NodeJS.Signals) => void): void {
    this.taker = taker;
  }
}
