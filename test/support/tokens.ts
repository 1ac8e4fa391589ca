import assert from 'node:assert/strict';
import type { CountedAdmission, FenceGuard } from '../../src/fencing';
import { FencingToken, StaleTokenError } from '../../src/shared/fencing-token';

/** Run IDs like those of the server (UUIDv7), each greater than the one before. */
export function runIds(count: number, fromMs = Date.UTC(2025, 0)): string[] {
  return Array.from({ length: count }, (_, index) => {
    const time = (fromMs + index).toString(16).padStart(12, '0');
    return `${time.slice(0, 8)}-${time.slice(8)}-7000-8000-${index.toString(16).padStart(12, '0')}`;
  });
}

/** In the order of arrival: the holder, the activity and its attempt (none: the permit itself), and the epoch or why it is refused. */
const ARRIVALS: readonly [
  holder: 0 | 1,
  activity: [scheduledMs: number, attempt: number] | undefined,
  answer: number | string,
][] = [
  [0, undefined, 1],
  [0, [10, 1], 1],
  [0, [10, 1], 1],
  [0, [10, 2], 1],
  [0, [10, 1], 'a late attempt'],
  [0, undefined, 1],
  [0, [10, 1], 'a late attempt'],
  [0, [11, 1], 1],
  [0, [10, 9], 'a late activity'],
  [1, undefined, 2],
  [1, [5, 1], 2],
  [0, [99, 1], 'a late holder'],
];

/** Checks a guard's answers to the attempts of activities under two permits of one slot. */
export async function assertAttempts(guard: FenceGuard<CountedAdmission>): Promise<void> {
  const permits = runIds(2).map((runId) => FencingToken.from({ resource: guard.resource, slot: 'attempts', runId }));
  for (const [holder, activity, answer] of ARRIVALS) {
    const permit = permits[holder] ?? assert.fail();
    const token = activity ? permit.of({ scheduledMs: activity[0], attempt: activity[1] }) : permit;
    const admission = guard.admit(String(token));
    if (typeof answer === 'number') assert.deepEqual(await admission, { token, epoch: answer });
    else {
      await assert.rejects(admission, (error) => {
        assert.ok(error instanceof StaleTokenError, answer);
        assert.equal(error.passes, answer !== 'a late holder');
        return true;
      });
    }
  }
}
