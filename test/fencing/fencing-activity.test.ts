import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { Context } from '@temporalio/activity';
import { WorkflowFailedError } from '@temporalio/client';
import { ActivityFailure, ApplicationFailure } from '@temporalio/common';
import { Worker } from '@temporalio/worker';
import { currentFencingToken, FencingToken, MemoryFence, StaleTokenError, TemporalFence } from '@/fencing';
import { fencingInterceptors } from '@/fencing-worker';
import {
  type FencedActivities,
  fencedSteps,
  fencedWrites,
  forgetful,
  holdUntil,
  nestedTokens,
} from '../support/fencing-workflows';
import { eventually, useTemporal, warnings } from '../support/temporal';
import { runIds } from '../support/tokens';

const temporal = useTemporal({ shared: true });
const TASK_QUEUE = `fencing-${randomUUID()}`;
const fence = new MemoryFence('guarded');
const written = new MemoryFence('written');

const activities: FencedActivities = {
  tokenSeen: async () => {
    try {
      return FencingToken.from({ ...currentFencingToken() }).toString(); // that of the permit itself
    } catch (error) {
      return String(error).replace(/:.*/s, '');
    }
  },
  admitSeen: async (newerRunId) => {
    attempts++;
    const token = currentFencingToken();
    await fence.admit({ ...token, runId: newerRunId });
    await fence.admit(token);
  },
  write: async (what) => {
    const { attempt } = Context.current().info;
    // These have timed out when they write, and the Workflow has gone on.
    const isLate = what === 'given up' || (what === 'other' && attempt === 1);
    if (isLate) await (what === 'other' ? again : next).promise;
    try {
      await written.transaction(currentFencingToken(), async () => void writes.push(`${what} ${attempt}`));
    } catch (error) {
      refusals.push(`${what} ${attempt}: ${(error as Error).name}`);
      throw error;
    } finally {
      if (isLate && ++lateEnds === 3) late.resolve();
      if (what === 'other' && !isLate) again.resolve();
      if (what === 'next') next.resolve();
    }
  },
};
let attempts = 0;
const writes: string[] = [];
const refusals: string[] = [];
let lateEnds = 0;
const [again, next, late] = [deferred(), deferred(), deferred()];

function deferred() {
  let resolve = () => {};
  const promise = new Promise<void>((done) => {
    resolve = done;
  });
  return { promise, resolve };
}

function options(): { workflowId: string; taskQueue: string } {
  return { workflowId: `fencing-${randomUUID()}`, taskQueue: TASK_QUEUE };
}

// A suite, because its hooks run between those of the file, which may share its process with others.
describe('on a worker with the interceptors', () => {
  let worker: Worker;
  let running: Promise<void>;
  before(async () => {
    worker = await Worker.create({
      connection: temporal.env.nativeConnection,
      taskQueue: TASK_QUEUE,
      workflowsPath: require.resolve('../support/fencing-workflows'),
      activities,
      interceptors: fencingInterceptors,
    });
    running = worker.run();
  });
  after(async () => {
    worker?.shutdown();
    await running;
  });

  test('an activity called inside withPermit knows its token, of the innermost permit; outside there is none', async () => {
    const seen = await temporal.client.workflow.execute(nestedTokens, options());
    const { outer, inner } = seen;
    assert.deepEqual(seen.tokens, {
      before: 'MissingTokenError',
      inOuter: outer,
      inOuterLocally: outer,
      inInner: inner,
      afterInner: outer,
      besideInner: outer,
      after: 'MissingTokenError',
    });
    assert.equal(FencingToken.parse(outer).resource, 'outer');
    assert.equal(FencingToken.parse(inner).resource, 'inner');
  });

  test('a Workflow that returns before its withPermit is warned of', async () => {
    const resource = temporal.resource();
    const { workflowId } = options();
    await temporal.client.workflow.execute(forgetful, { ...options(), workflowId, args: [resource] });
    await temporal.client.workflow.execute(nestedTokens, options());
    const ofThese = warnings.filter(({ meta }) => meta?.taskQueue === TASK_QUEUE);
    const message = `This Workflow has returned before its withPermit of "${resource}": the rest of that call is cut off. Await it.`;
    assert.deepEqual(
      ofThese.map((entry) => [entry.message, entry.meta?.workflowId]),
      [[message, workflowId]],
    );
  });

  test('a refusal in an activity is not retried, and keeps its type', async () => {
    attempts = 0;
    // Of a later permit: an hour ahead, which a guard still takes for a clock.
    const [newer = ''] = runIds(1, Date.now() + 3_600_000);
    await assert.rejects(temporal.client.workflow.execute(fencedSteps, { ...options(), args: [newer] }), (error) => {
      assert.ok(error instanceof WorkflowFailedError && error.cause instanceof ActivityFailure);
      const { cause } = error.cause;
      assert.ok(cause instanceof ApplicationFailure);
      assert.deepEqual([cause.type, cause.nonRetryable], ['StaleTokenError', true]);
      assert.ok(cause.message.includes(`was superseded by run ${newer}`), cause.message);
      return true;
    });
    assert.equal(attempts, 1);
  });

  test('a fence tells attempts apart: a late attempt, or a late activity, is refused once the next one has written', async () => {
    await temporal.client.workflow.execute(fencedWrites, options());
    await late.promise;
    for (const what of ['given up 1', 'given up 2', 'other 1']) {
      assert.ok(refusals.includes(`${what}: StaleTokenError`), what);
      assert.ok(!writes.includes(what), what);
    }
    for (const what of ['one', 'other', 'next'])
      assert.ok(
        writes.some((it) => it.startsWith(what)),
        what,
      );
  });

  test('TemporalFence passes the holder of now, and refuses one whose permit has ended or was followed by another', async () => {
    const guard = new TemporalFence('held', temporal.client);
    const hold = async () => {
      const handle = await temporal.client.workflow.start(holdUntil, options());
      const token = await eventually(async () => FencingToken.parse(await handle.query<string>('token')));
      return { handle, token };
    };
    const first = await hold();
    assert.deepEqual(await guard.admit(first.token), { token: first.token });
    await first.handle.signal('finish');
    await first.handle.result();
    const stale = (newest: FencingToken | undefined) => (error: unknown) => {
      assert.ok(error instanceof StaleTokenError);
      assert.deepEqual([error.token, error.newest], [first.token, newest]);
      return true;
    };
    await assert.rejects(guard.admit(first.token), stale(undefined));

    const second = await hold();
    await assert.rejects(guard.admit(first.token), stale(second.token));
    await guard.admit(String(second.token));
    await second.handle.signal('finish');
    await second.handle.result();

    const never = FencingToken.from({ ...first.token, slot: 'never-held' });
    await assert.rejects(guard.admit(never), StaleTokenError);
  });

  test('TemporalFence lets nothing pass when the server cannot be asked', async () => {
    const down = new Error('14 UNAVAILABLE');
    const guard = new TemporalFence('held', {
      workflow: { getHandle: () => ({ describe: async () => await Promise.reject(down) }) },
    });
    await assert.rejects(guard.admit({ resource: 'held', slot: '0', runId: randomUUID() }), down);
  });
});
