import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isOpen, isPaused } from './open';

test('a Workflow is open while it runs or is paused, also for an SDK that has no name for the pause', () => {
  const open = [
    { code: 1, name: 'RUNNING' },
    { code: 8, name: 'PAUSED' },
    { code: 8, name: 'UNKNOWN' },
    { name: 'RUNNING' },
    { name: 'PAUSED' },
  ];
  const ended = ['COMPLETED', 'FAILED', 'CANCELLED', 'TERMINATED', 'CONTINUED_AS_NEW', 'TIMED_OUT', 'UNKNOWN'];
  const paused = open.filter(({ name }) => name !== 'RUNNING');
  assert.deepEqual(
    open.filter((status) => !isOpen({ status })),
    [],
  );
  assert.deepEqual(
    open.filter((status) => isPaused({ status })),
    paused,
  );
  assert.deepEqual(
    ended.filter((name) => isOpen({ status: { code: 2, name } })),
    [],
  );
});
