import { checkPortIsFree } from '../server-process';

export const HOST = '127.0.0.1';

/** Below the ports that systems give to outgoing connections: a node that restarts finds its own ones free again. */
const RANGE = { from: 12_000, to: 30_000 };

const TRIES = 100;

/** Finds that many free ports in a row. @returns the first */
export async function freePorts(count: number): Promise<number> {
  for (let attempt = 0; attempt < TRIES; attempt++) {
    const first = RANGE.from + Math.floor(Math.random() * (RANGE.to - RANGE.from - count));
    if (await areFree(first, count)) return first;
  }
  throw new Error(`found no ${count} free ports in a row between ${RANGE.from} and ${RANGE.to}`);
}

async function areFree(first: number, count: number): Promise<boolean> {
  for (let port = first; port < first + count; port++) {
    const free = await checkPortIsFree(port, 'a cluster').then(
      () => true,
      () => false,
    );
    if (!free) return false;
  }
  return true;
}
