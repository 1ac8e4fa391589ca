import assert from 'node:assert/strict';
import { test } from 'node:test';
import { messageOf } from './errors';

test('the messages of an error and its causes read as one sentence, and say nothing twice', () => {
  const deadline = new Error('4 DEADLINE_EXCEEDED: Deadline exceeded after 5 s');
  const call = new Error('Deadline exceeded after 5 s', { cause: deadline });
  const late = new Error('No worker has answered. Check that one runs.', { cause: call });
  assert.equal(
    messageOf(late),
    'No worker has answered. Check that one runs: 4 DEADLINE_EXCEEDED: Deadline exceeded after 5 s',
  );
  assert.equal(messageOf(new Error('It is late.')), 'It is late.');
  assert.equal(messageOf(new Error('', { cause: deadline })), deadline.message);
  assert.equal(messageOf('text'), 'text');
});
