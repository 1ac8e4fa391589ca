import { randomUUID } from 'node:crypto';
import { type Consumer, contend } from './contend';
import { type Row, row } from './report';
import { type Bench, median, middle, quantile } from './support';
import type { acquireChain, bareChain } from './workflows';

/** How many at a time, and how often in turn with the bare calls: so that both see the same machine. */
const CHAIN = 10;
const TURNS = 40;

/** How many wait for one slot, one after the other. */
const LINE = 40;

/** Holds of as many lengths, spread over a second: so that a poller's turn may come at any time after a release. */
const HOLDS_MS = Array.from({ length: 15 }, (_, index) => 500 + (1_000 * index) / 15);

/** An acquire that nobody contends, beside the bare calls that it rests on; and a hand-off beside a bare chain, and polling. */
export async function basics(bench: Bench): Promise<Row[]> {
  const ours: Awaited<ReturnType<typeof acquireChain>>[] = [];
  const bare: Awaited<ReturnType<typeof bareChain>>[] = [];
  const likeOurs: Awaited<ReturnType<typeof bareChain>>[] = [];
  const resource = `alone-${randomUUID()}`;
  const runOurs = async () => ours.push(await run(bench, 'acquireChain', [resource, CHAIN]));
  const runBare = async () => bare.push(await run(bench, 'bareChain', [CHAIN]));
  const runLikeOurs = async () =>
    likeOurs.push(await run(bench, 'bareChain', [CHAIN, { resource: `${resource}-by-hand`, slot: '0' }]));
  for (let turn = 0; turn < TURNS; turn++) {
    for (const act of turn % 2 ? [runOurs, runBare, runLikeOurs] : [runLikeOurs, runBare, runOurs]) await act();
  }
  const acquires = middle(ours.flatMap(({ acquireMs }) => acquireMs));
  const releases = middle(ours.flatMap(({ releaseMs }) => releaseMs));
  const starts = middle(bare.flatMap(({ startMs }) => startMs));
  const startsLikeOurs = middle(likeOurs.flatMap(({ startMs }) => startMs));
  const ends = middle(bare.flatMap(({ endMs }) => endMs));
  const chain = middle(bare.flatMap(({ chainMs }) => chainMs));

  const load = { capacity: 1, holdMs: 200 };
  const { gapsMs } = await contend(bench, 'parkingConsumer', LINE, load);
  const polling = await contend(bench, 'pollingConsumer', LINE, load);
  const chainBeside: [string, number] = ['signal, end, startChild', chain];
  return [
    row('acquire, nobody waits', ['startChild', starts], acquires, 'ms', { atMost: 1.15 }),
    // A permit's ID is used again and again: the server then looks at the Workflow that had it before. And it stores a memo.
    row('… the same', ['startChild, with the ID and the memo of a permit', startsLikeOurs], acquires, 'ms'),
    row('acquire and release', ['startChild, signal, end', starts + ends], acquires + releases, 'ms'),
    row(
      'hand-off to one waiter, median',
      ['polling each second', await toOne(bench, 'pollingConsumer')],
      await toOne(bench, 'parkingConsumer'),
      'ms',
      { atMost: 0.2 },
    ),
    row(`hand-off in a line of ${LINE}, median`, chainBeside, median(gapsMs), 'ms', { atMost: 3 }),
    row('… 99th percentile', chainBeside, quantile(gapsMs, 0.99), 'ms'),
    row('… worst', chainBeside, Math.max(...gapsMs), 'ms'),
    // So many pollers meet a free slot soon by their number alone.
    row('… median', [`${LINE} that poll each second`, median(polling.gapsMs)], median(gapsMs), 'ms'),
  ];
}

/** One holds, and one waits: the median of the times from the release to the next hold. */
async function toOne(bench: Bench, type: Consumer): Promise<number> {
  const gapsMs: number[] = [];
  for (const holdMs of HOLDS_MS) gapsMs.push(...(await contend(bench, type, 2, { capacity: 1, holdMs })).gapsMs);
  return median(gapsMs);
}

async function run<T>({ client, taskQueue }: Bench, type: string, args: unknown[]): Promise<T> {
  return await client.workflow.execute(type, { workflowId: `${type}-${randomUUID()}`, taskQueue, args });
}
