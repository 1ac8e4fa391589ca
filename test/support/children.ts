import type { ChildProcess } from 'node:child_process';
import { after } from 'node:test';

const children = new Set<ChildProcess>();

/** Kills the child when the file's tests are over, if it still runs: a failed test would otherwise hang on it. */
export function endWithTests<Child extends ChildProcess>(child: Child): Child {
  children.add(child);
  child.once('exit', () => children.delete(child));
  return child;
}

after(() => {
  for (const child of children) child.kill('SIGKILL');
});
