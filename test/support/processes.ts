import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

/** A dead process that nobody buries, as in a container without an init, is not alive. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return process.platform !== 'linux' || !/^State:\tZ/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return false;
  }
}

/** The process ID of the child whose command line has `text`. A small Linux has no `pgrep`. */
export function childOf(parent: number | undefined, text: string): number {
  if (process.platform !== 'linux') {
    return Number(spawnSync('pgrep', ['-P', String(parent), '-f', text], { encoding: 'utf8' }).stdout);
  }
  const children = readFileSync(`/proc/${parent}/task/${parent}/children`, 'utf8').trim().split(' ');
  return Number(children.find((pid) => readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(text)));
}
