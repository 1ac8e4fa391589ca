import { constants } from 'node:os';

/** As in sysexits.h and shells, for what is not the command's own exit code. */
export const EXIT = {
  /** Not done: the operator said no. Or looked at, and found bad. */
  no: 1,
  /** The command line is wrong. */
  usage: 64,
  /** The thing that was named is not there. */
  absent: 66,
  /** The server can't be reached, or refuses. */
  unavailable: 69,
  /** No permit was had: try again later. */
  busy: 75,
  /** The command can't be executed. */
  notExecutable: 126,
  /** There is no such command. */
  notFound: 127,
} as const;

/** The exit code of a process that a signal ended, as shells give it. */
export function signalCode(signal: NodeJS.Signals): number {
  return 128 + constants.signals[signal];
}
