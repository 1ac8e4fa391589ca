import { type ChildProcess, spawn } from 'node:child_process';
import { Socket } from 'node:net';

/**
 * Ends the child when this process ends, in whatever way: also by `kill -9`, which lets no handler run. A shell waits for
 * the end of a pipe that only we hold open, and then sends the signal. (On Windows, which has no such shell, the child
 * ends only when this process exits by itself.)
 */
export function diesWithUs<Child extends ChildProcess>(child: Child, signal: NodeJS.Signals = 'SIGKILL'): Child {
  const { pid } = child;
  if (pid === undefined) return child; // it never started
  if (process.platform === 'win32') {
    const end = () => child.kill(signal);
    process.once('exit', end);
    child.once('exit', () => process.off('exit', end));
    return child;
  }
  const guard = spawn('sh', ['-c', 'read -r _; kill -s "$0" "$1" 2>/dev/null', signal.slice('SIG'.length), `${pid}`], {
    detached: true, // a Ctrl-C at the terminal is not its business
    stdio: ['pipe', 'ignore', 'ignore'],
  });
  guard.unref();
  // Otherwise the pipe would keep us alive for as long as the child lives.
  if (guard.stdin instanceof Socket) guard.stdin.unref();
  // The guard must not outlive the child, whose number the system may give to another process.
  child.once('exit', () => guard.kill('SIGKILL'));
  return child;
}
