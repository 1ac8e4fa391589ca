import type { ChildProcess } from 'node:child_process';
import { after } from 'node:test';
import { diesWithUs } from '../../scripts/support/dies-with-us';

const children = new Set<ChildProcess>();

/** Kills the child when the file's tests are over, or their process has died: a failed test would otherwise hang on it. */
export function endWithTests<Child extends ChildProcess>(child: Child): Child {
  children.add(child);
  child.once('exit', () => children.delete(child));
  return diesWithUs(child);
}

after(() => {
  for (const child of children) child.kill('SIGKILL');
});
