import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { permitId, queueId } from '../../../src/shared/permit-id';
import { CLOSING, QUEUE_WORKFLOW, RELEASE, WATCH } from '../../../src/shared/protocol';
import { permitSlotWorkflow } from '../../../src/workflows';
import { startOptions } from '../../support/holders';
import { send, start } from '../../support/strangers';
import { eventually, useTemporal } from '../../support/temporal';
import * as workflows from '../../support/workflows';

const temporal = useTemporal({ shared: true });

const CONTINUE_AS_NEW = 10;

/** A queue whose every Workflow Task is in our hands: it has no worker but this. */
async function startByHand(resource: string) {
  const { workflowService } = temporal.client;
  const name = `${temporal.taskQueue}-by-hand`;
  const namespace = temporal.client.options.namespace;
  await start(temporal.client, queueId(resource), QUEUE_WORKFLOW, name, {});
  return {
    poll: async () => {
      const polled = temporal.client.connection.withDeadline(Date.now() + 60_000, () =>
        workflowService.pollWorkflowTaskQueue({ namespace, taskQueue: { name } }),
      );
      return (await polled).taskToken;
    },
    continueAsNew: async (taskToken: Uint8Array) => {
      const continueAsNewWorkflowExecutionCommandAttributes = {
        workflowType: { name: QUEUE_WORKFLOW },
        taskQueue: { name },
      };
      const commands = [{ commandType: CONTINUE_AS_NEW, continueAsNewWorkflowExecutionCommandAttributes }];
      await workflowService.respondWorkflowTaskCompleted({ namespace, taskToken, commands });
    },
  };
}

async function startPermit(resource: string) {
  return await temporal.client.workflow.start(permitSlotWorkflow, {
    workflowId: permitId({ resource, slot: '0' }),
    taskQueue: temporal.taskQueue,
    args: [{ leaseMs: 60_000, holder: { identity: 'test' }, watchedBy: queueId(resource) }],
  });
}

/** As the permit's history tells: how often it has commanded the signal, in all, and before the server had carried out any. */
async function closingsSent(permit: string): Promise<{ inAll: number; atFirst: number }> {
  const { events } = await temporal.client.workflow.getHandle(permit).fetchHistory();
  const sent = (events ?? []).flatMap(({ eventId, signalExternalWorkflowExecutionInitiatedEventAttributes: signal }) =>
    signal?.signalName === CLOSING ? [Number(eventId)] : [],
  );
  const first = (events ?? []).find((event) => event.externalWorkflowExecutionSignaledEventAttributes);
  const firstId = Number(first?.eventId ?? Number.POSITIVE_INFINITY);
  return { inAll: sent.length, atFirst: sent.filter((id) => id < firstId).length };
}

test('a permit that the server keeps from telling its queue tells it as soon as the queue asks', async () => {
  const resource = temporal.resource();
  const queue = await startByHand(resource);
  const permit = await startPermit(resource);

  // A signal comes while the queue continues as new: the server fails that, and refuses all signals during the next task.
  const first = await queue.poll();
  await send(temporal.client, queueId(resource), 'something', {});
  await assert.rejects(queue.continueAsNew(first), /UnhandledCommand/);
  const second = await queue.poll();
  await permit.signal(RELEASE);
  await eventually(async () => assert.equal((await closingsSent(permit.workflowId)).inAll, 1));
  await delay(500); // the server has given up trying it at once
  await queue.continueAsNew(second);
  assert.equal((await permit.describe()).status.name, 'RUNNING', 'its notice is not through');

  await permit.signal(WATCH, { queueId: queueId(resource) });
  assert.equal(await permit.result(), 'released');
  // The server tries the first one again only after 2.6 s. The permit did not wait for that.
  assert.deepEqual(await closingsSent(permit.workflowId), { inAll: 2, atFirst: 2 });
  await temporal.client.workflow.getHandle(queueId(resource)).terminate();
});

test('a permit ends although its queue asks it again and again', async () => {
  const resource = temporal.resource();
  const { workflowId } = await temporal.client.workflow.start(workflows.impostor, {
    ...startOptions(temporal),
    workflowId: queueId(resource),
    args: ['any', 0],
  });
  const permit = await startPermit(resource);
  const flood = new AbortController();
  const ended = permit.result().finally(() => flood.abort());
  await permit.signal(RELEASE);
  const ask = async () => {
    for (; !flood.signal.aborted; await delay(10)) {
      await permit.signal(WATCH, { queueId: workflowId }).catch(() => flood.abort());
    }
  };
  await Promise.all(Array.from({ length: 3 }, ask));
  assert.equal(await ended, 'released');
  const { inAll } = await closingsSent(permit.workflowId);
  assert.ok(inAll <= 10, `it told its queue ${inAll} times`);
  await temporal.client.workflow.getHandle(workflowId).terminate();
});
