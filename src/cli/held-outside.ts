import { readFileSync } from 'node:fs';
import type { Client } from '@temporalio/client';
import { SelfDeadlockError } from '../client';
import { keyResource } from '../shared/key-names';
import { waitsForItself } from '../shared/self-deadlock';
import { placeOf } from './connection';

/** Tells a `run` inside a `run` which permits the outer `run`s hold, as JSON. */
const VARIABLE = 'TEMPORAL_SEMAPHORE_HELD';

/** A resource of which a `run` holds a permit, or wants one. */
export interface WantedResource {
  resource: string;
  capacity?: number;
  slots?: string[];
  perKey?: number;
  pace?: { every: number };
  key?: string;
  permits?: number;
}

interface Held {
  /** The process that holds the permit. A daemon that its command has left behind has the variable too, but does not run inside. */
  by: number;
  /** The server and namespace: the same name elsewhere is another resource. */
  at: string;
  resource: string;
}

/** @throws SelfDeadlockError when the `run`s around this one hold all permits of one of the resources: it would wait for ever */
export function checkSelfDeadlock(client: Client, resources: readonly WantedResource[]): void {
  const [wait] = ownWaits(client, resources);
  if (wait) throw new SelfDeadlockError(wait.resource, wait.own, wait.capacity);
}

/** A resource of which the `run`s around this one hold so many permits that this one waits for them. */
export interface OwnWait {
  resource: string;
  /** How many they hold. */
  own: number;
  capacity: number;
}

/** Of which of the resources it would wait for permits that only the `run`s around it can give back. */
export function ownWaits(client: Client, resources: readonly WantedResource[]): OwnWait[] {
  const waits: OwnWait[] = [];
  const held = heldOutside().filter(({ at }) => at === placeText(client));
  for (const { resource, capacity = 0, slots, perKey, key, permits = 1 } of resources) {
    const wanted = [{ resource, count: slots?.length ?? capacity }];
    if (key !== undefined && perKey !== undefined) wanted.push({ resource: keyResource(resource, key), count: perKey });
    for (const { resource, count } of wanted) {
      const own = waitsForItself(
        { resource, slots: Array.from({ length: count }, String) },
        { timeoutMs: Number.POSITIVE_INFINITY },
        held.map((it) => it.resource),
        permits,
      );
      if (own > 0) waits.push({ resource, own, capacity: count });
    }
  }
  return waits;
}

/** What the environment of a command says of the permits around it. */
export function heldInside(client: Client, resources: readonly WantedResource[]): NodeJS.ProcessEnv {
  const at = placeText(client);
  const held = resources.flatMap(({ resource, key, permits = 1 }) => {
    const names = key === undefined ? [resource] : [resource, keyResource(resource, key)];
    return names.flatMap((name) =>
      Array.from({ length: permits }, (): Held => ({ by: process.pid, at, resource: name })),
    );
  });
  return { [VARIABLE]: JSON.stringify([...heldOutside(), ...held]) };
}

function placeText(client: Client): string {
  const { address, namespace } = placeOf(client);
  return `${address}/${namespace}`;
}

/** Reads the variable, and leaves out what this program has not written. */
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
      // The name of the process, which stands before the number, may have any character.
      const [, parent] = /.*\) \S (\d+) /s.exec(readFileSync(`/proc/${pid}/stat`, 'utf8')) ?? [];
      pid = Number(parent);
    } catch {
      return process.platform === 'linux' ? found : undefined;
    }
  }
  return found;
}
