import { type ChildProcess, spawn } from 'node:child_process';
import { Socket } from 'node:net';

/**
 * Ends the child when this process ends, also by `kill -9`, after which no handler runs. A shell waits until a pipe closes
 * that only this process holds open, and then sends the signal. (Windows has no such shell. There the child ends only when
 * this process exits by itself.)
 */
export function diesWithUs<Child extends ChildProcess>(child: Child, signal: NodeJS.Signals = 'SIGKILL'): Child {
  const { pid } = child;
  if (pid === undefined) return child; // the child never started
  if (process.platform === 'win32') {
    const end = () => child.kill(signal);
    process.once('exit', end);
    child.once('exit', () => process.off('exit', end));
    return child;
  }
  const guard = spawn('sh', ['-c', 'read -r _; kill -s "$0" "$1" 2>/dev/null', signal.slice('SIG'.length), `${pid}`], {
    detached: true, // a Ctrl-C at the terminal must not reach it
    stdio: ['pipe', 'ignore', 'ignore'],
  });
  guard.unref();
  // Otherwise the pipe would keep this process alive for as long as the child lives.
  if (guard.stdin instanceof Socket) guard.stdin.unref();
  // The shell must not outlive the child: the system may give the child's process ID to another process.
  child.once('exit', () => guard.kill('SIGKILL'));
  return child;
}
