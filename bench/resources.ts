import { randomUUID } from 'node:crypto';
import { type Row, row } from './report';
import type { Bench } from './support';

const RESOURCES = 200;
const CONSUMERS = 3;

/** Many small pools at once: a queue for each. */
export async function resources({ client, taskQueue }: Bench): Promise<Row[]> {
  const run = async (type: string, args: object[]) =>
    await client.workflow.execute(type, { workflowId: `${type}-${randomUUID()}`, taskQueue, args });
  const perSecond = async (runAll: () => Promise<unknown>[]) => {
    const startedMs = Date.now();
    await Promise.all(runAll());
    return (RESOURCES * CONSUMERS) / ((Date.now() - startedMs) / 1_000);
  };
  const all = Array.from({ length: RESOURCES * CONSUMERS }, (_, number) => number);
  const resource = randomUUID().slice(0, 8);
  const ours = await perSecond(() =>
    all.map((number) =>
      run('parkingConsumer', [{ resource: `${resource}-${number % RESOURCES}`, capacity: 1, holdMs: 0 }]),
    ),
  );
  const bare = await perSecond(() => all.map(() => run('bareConsumer', [])));
  return [
    row(
      `${RESOURCES} resources of 1 slot, ${CONSUMERS} holds of 0 s on each`,
      [`${all.length} bare children`, bare],
      ours,
      'a second',
    ),
  ];
}
