import { constants } from 'node:os';

/** Our own exit codes, as in sysexits.h and shells. `run` exits with its command's code otherwise. */
export const EXIT = {
  /** The operator said no; `doctor` found something bad; `ls` or `why` found nothing by that name; a limit can't be put into force. */
  no: 1,
  /** `plan`: there is something to change. The same code as that of `terraform plan -detailed-exitcode`. */
  changes: 2,
  /** The command line is wrong. */
  usage: 64,
  /** That slot is not held, or not by that run. */
  absent: 66,
  /** The server can't be reached, or refuses the request; or no worker answers. */
  unavailable: 69,
  /** Try again: no permit came in time, or the override has changed. */
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
