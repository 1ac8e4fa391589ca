import assert from 'node:assert/strict';
import type { SemaphoreClient } from '../../src/client';
import type { Inspection } from '../../src/operator';
import { operatorOf } from './operators';
import { eventually } from './temporal';

/** The slots, as in `0 held, 1 free`. */
export function states({ slots }: Inspection): string {
  return slots.map(({ slot, state }) => `${slot} ${state}`).join(', ');
}

/** Waits until the slots are in these states, as in `0 held, 1 free`. */
export async function untilStates(pool: SemaphoreClient, expected: RegExp): Promise<Inspection> {
  return await eventually(async () => {
    const inspection = await operatorOf(pool).inspect({ recent: 0 });
    assert.match(states(inspection), expected);
    return inspection;
  });
}

/** Waits until this many wait in line. */
export async function untilAllWait(pool: SemaphoreClient, count: number): Promise<Inspection> {
  return await eventually(async () => {
    const inspection = await operatorOf(pool).inspect({ recent: 0 });
    assert.equal(inspection.waiters.length, count);
    return inspection;
  });
}
