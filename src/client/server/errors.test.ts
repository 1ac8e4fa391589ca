import assert from 'node:assert/strict';
import { test } from 'node:test';
import { messageOf, NoAnswerError } from './errors';

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

test('an order to a paused Workflow says what has come of it: a permit takes it later, a queue has refused it', () => {
  const permit = new NoAnswerError('gpu', 10_000, { paused: 'permit:gpu:0' });
  const queue = new NoAnswerError('gpu', 10_000, { paused: 'permit-queue:gpu' });
  assert.deepEqual([permit.paused, queue.paused], ['permit:gpu:0', 'permit-queue:gpu']);
  assert.match(
    permit.message,
    /keeps its slot\. It ends once it is unpaused: temporal workflow unpause -w permit:gpu:0$/,
  );
  assert.match(queue.message, /nothing has changed\..*: temporal workflow unpause -w permit-queue:gpu$/);
});
