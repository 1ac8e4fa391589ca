import { readFileSync } from 'node:fs';
import type { Client } from '@temporalio/client';
import { SelfDeadlockError } from '../client';
import { keyResource, waitsForItself } from '../client/operators';

/** Tells a `run` inside a `run` what the outer ones hold, as JSON. */
const VARIABLE = 'TEMPORAL_SEMAPHORE_HELD';

/** A pool of which a `run` holds a permit, or wants one. */
export interface RunPool {
  resource: string;
  capacity?: number;
  slots?: string[];
  perKey?: number;
  pace?: { every: number };
  key?: string;
  permits?: number;
}

interface Held {
  /** The process that holds it. A daemon that its command has left behind has the variable too, but does not run inside. */
  by: number;
  /** Where it is: the same name in another place is another resource. */
  at: string;
  resource: string;
}

/** @throws SelfDeadlockError when the `run`s around this one hold all permits of one of the pools, and it would wait for ever */
export function checkSelfDeadlock(
  client: Client,
  pools: readonly RunPool[],
  timeoutMs = Number.POSITIVE_INFINITY,
): void {
  const held = heldOutside().filter(({ at }) => at === placeOf(client));
  for (const { resource, capacity = 0, slots, perKey, key, permits = 1 } of pools) {
    const wanted = [{ resource, count: slots?.length ?? capacity }];
    if (key !== undefined && perKey !== undefined) wanted.push({ resource: keyResource(resource, key), count: perKey });
    for (const { resource, count } of wanted) {
      const pool = { resource, slots: Array.from({ length: count }, String) };
      const own = waitsForItself(
        pool,
        { timeoutMs },
        held.map((it) => it.resource),
        permits,
      );
      if (own > 0) throw new SelfDeadlockError(resource, own, count);
    }
  }
}

/** What the command's environment has to say of it. */
export function heldInside(client: Client, pools: readonly RunPool[]): NodeJS.ProcessEnv {
  const at = placeOf(client);
  const held = pools.flatMap(({ resource, key, permits = 1 }) => {
    const names = key === undefined ? [resource] : [resource, keyResource(resource, key)];
    return names.flatMap((name) =>
      Array.from({ length: permits }, (): Held => ({ by: process.pid, at, resource: name })),
    );
  });
  return { [VARIABLE]: JSON.stringify([...heldOutside(), ...held]) };
}

function placeOf({ connection, options }: Client): string {
  const { address } = (connection as { options?: { address?: string } }).options ?? {};
  return `${address}/${options.namespace}`;
}

/** Whatever else stands in the variable is not ours. */
function heldOutside(): Held[] {
  try {
    const held: unknown = JSON.parse(process.env[VARIABLE] ?? '[]');
    if (!Array.isArray(held) || held.length === 0) return [];
    const ancestors = ancestorsHere();
    return held.filter(
      (it) => typeof it?.at === 'string' && typeof it?.resource === 'string' && (!ancestors || ancestors.has(it.by)),
    );
  } catch {
    return [];
  }
}

/** The processes in which this one runs; `undefined` where the system has no `/proc`. */
function ancestorsHere(): Set<number> | undefined {
  const found = new Set<number>();
  for (let pid = process.ppid; pid > 0; ) {
    found.add(pid);
    try {
      // The name before it may have any character.
      const [, parent] = /.*\) \S (\d+) /s.exec(readFileSync(`/proc/${pid}/stat`, 'utf8')) ?? [];
      pid = Number(parent);
    } catch {
      return process.platform === 'linux' ? found : undefined;
    }
  }
  return found;
}
