import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { DefaultLogger, Runtime, Worker, type WorkflowBundle } from '@temporalio/worker';
import { DeterminismViolationError } from '@temporalio/workflow';
import { bundleWorkflows } from '../../scripts/support/workflow-bundles';

// Histories of Workflows as they ran when they were recorded (`pnpm record-histories`). A change that can't replay them
// would break the Workflows that are running when it is deployed: it needs `patched`.
const DIRECTORY = join(__dirname, '..', 'histories');

interface RecordedHistory {
  events: {
    workflowExecutionStartedEventAttributes?: {
      workflowType: { name: string };
      workflowId: string;
      continuedExecutionRunId?: string;
    };
  }[];
}

let workflowBundle: WorkflowBundle;

before(async () => {
  Runtime.install({ logger: new DefaultLogger('ERROR') });
  workflowBundle = await bundleWorkflows(require.resolve('../support/workflows'));
});

function read(file: string): RecordedHistory {
  return JSON.parse(readFileSync(join(DIRECTORY, file), 'utf8')) as RecordedHistory;
}

const files = readdirSync(DIRECTORY).sort();

test('there are histories of every Workflow', () => {
  const types = new Set(
    files.map((file) => read(file).events[0]?.workflowExecutionStartedEventAttributes?.workflowType.name),
  );
  assert.deepEqual([...types].sort(), [
    'adopter',
    'awaitTurnWorkflow',
    'exampleConsumer',
    'holder',
    'leaver',
    'pacedPermitWorkflow',
    'permitSlotWorkflow',
    'waitQueueWorkflow',
  ]);
  const ofSecondRun = files.filter(
    (file) => read(file).events[0]?.workflowExecutionStartedEventAttributes?.continuedExecutionRunId,
  );
  assert.deepEqual(ofSecondRun, ['queue-second-run.json']);
});

for (const file of files) {
  test(`${file} replays on today's code`, async () => {
    const history = read(file);
    // A queue's own ID says which resource's slots it claims.
    const { workflowId } = history.events[0]?.workflowExecutionStartedEventAttributes ?? assert.fail();
    await Worker.runReplayHistory({ workflowBundle }, history, workflowId);
  });
}

test('a history of other commands does not replay', async () => {
  const history = read('consumer.json');
  const started = history.events[0]?.workflowExecutionStartedEventAttributes ?? assert.fail();
  started.workflowType.name = 'holder'; // takes the same input, but sleeps where the consumer calls an activity
  await assert.rejects(Worker.runReplayHistory({ workflowBundle }, history, 'tampered'), DeterminismViolationError);
});
