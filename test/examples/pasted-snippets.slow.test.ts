import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { cp, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import ts from 'typescript';
import { typescriptOf } from '../support/compile-blocks';
import { pages } from '../support/pages';
import { useProgram } from '../support/programs';
import { assertNoPermitLeft } from '../support/temporal';

// Each Workflow snippet of the pages, pasted into the program of the README and run by its worker. A snippet that needs a setting which
// that worker lacks, such as another task queue, hangs here.

interface Pasted {
  page: string;
  /** A part of the snippet, which no other snippet of the page has. */
  has: string;
  /** What the page has before the snippet, or leaves to its reader. */
  given?: string;
  /** The Workflows that the snippet exports, each with arguments. A snippet without one becomes the body of a Workflow. */
  runs?: Record<string, unknown[]>;
}

const GPUS = "const gpus = new Semaphore('gpus', { capacity: 2 });";

const SNIPPETS: readonly Pasted[] = [
  { page: 'docs/recipes.md', has: "Semaphore('invoices'", runs: { numberInvoice: ['order-1'] } },
  { page: 'docs/recipes.md', has: "['gpu-a', 'gpu-b', 'gpu-c']", runs: { trainOn: ['dataset'] } },
  {
    page: 'docs/recipes.md',
    has: 'PermitTimeoutError',
    given: "const gpus = new Semaphore('gpus', { slots: ['gpu-a', 'gpu-b', 'gpu-c'] });",
    runs: { trainUnlessBusy: ['dataset'] },
  },
  { page: 'docs/recipes.md', has: "Semaphore('vendor-api'", runs: { askFor: ['acme', 'how much?'] } },
  { page: 'docs/recipes.md', has: "Semaphore('table'", runs: { read: [], write: ['row'] } },
  { page: 'docs/recipes.md', has: "Semaphore('slow-lane'", runs: { sendSlowly: ['message'] } },
  {
    page: 'docs/recipes.md',
    has: "Semaphore('embeddings'",
    runs: { embedAll: [[1, 2, 3, 4]], embedChunks: [[[1, 2], [3]]] },
  },
  { page: 'docs/comparison.md', has: "Semaphore('invoices'", runs: { numberInvoice: ['order-1'] } },
  { page: 'docs/in-workflows.md', has: "Semaphore('gpus'", runs: { trainModel: ['alpha'] } },
  { page: 'docs/in-workflows.md', has: 'trainEpochs', given: GPUS, runs: { trainEpochs: [99] } },
  { page: 'docs/sets.md', has: "Semaphore('openai'", given: "const tenant = 'acme';" },
  { page: 'docs/sets.md', has: "Semaphore('licences'" },
  { page: 'docs/sets.md', has: 'permits: 2', given: "const gpus = new Semaphore('gpu-pool', { capacity: 3 });" },
  { page: 'docs/priorities.md', has: "Semaphore('vendor'" },
  { page: 'docs/priorities.md', has: 'fairnessWeight', given: `${GPUS}\nconst tenant = 'acme';` },
  { page: 'docs/priorities.md', has: 'preempt: true', given: GPUS },
  {
    page: 'docs/fencing.md',
    has: 'ledger.withPermit',
    given: "const ledger = new Semaphore('ledger', { capacity: 1 });",
  },
];

/** The snippet of an activity that takes its permit itself, with what the page leaves to its reader. */
const IN_ACTIVITY = { page: 'docs/services.md', has: 'getClient()' };
const WORK_ON_GPU = `
import { setTimeout as delay } from 'node:timers/promises';
const workOnGpu = async (video: string, slot: string, signal: AbortSignal) => {
  const from = Date.now();
  await delay(300, undefined, { signal });
  return \`\${slot} \${from} \${Date.now()}\`;
};
`;

/** Its activities run at the same time. */
const RENDER_ALL = `
import { proxyActivities } from '@temporalio/workflow';
import type * as activities from './render';
const { render } = proxyActivities<typeof activities>({ startToCloseTimeout: '1 minute', heartbeatTimeout: '10s' });
export const renderAll = async (videos: string[]) => await Promise.all(videos.map((video) => render(video)));
`;

/** What the snippets call: activities of the worker. */
const ACTIVITIES = `
export { train } from './train';
export { render } from './render';
export const ask = async () => ({ status: 200, text: 'an answer' });
const work = async () => 'done';
export { work as alarm, work as append, work as batch, work as call, work as embed, work as nextNumber, work as readTable };
export { work as send, work as simulate, work as trainEpoch, work as trainOn, work as writeTable };
`;

const ACTIVITY_NAMES =
  'train, ask, alarm, append, batch, call, embed, nextNumber, readTable, send, simulate, trainEpoch, trainOn, writeTable'.split(
    ', ',
  );

const program = useProgram('hello', {
  prepare: async (project) => {
    await cp(join(project, 'activities.ts'), join(project, 'train.ts'));
    await writeFile(join(project, 'activities.ts'), ACTIVITIES);
    for (const [nth, snippet] of SNIPPETS.entries()) {
      await writeFile(join(project, `snippet-${nth}.ts`), moduleOf(snippet));
    }
    await writeFile(join(project, 'render.ts'), `${WORK_ON_GPU}${codeOf(IN_ACTIVITY)}`);
    await writeFile(join(project, 'render-all.ts'), RENDER_ALL);
    const exported = SNIPPETS.flatMap((snippet, nth) =>
      Object.keys(runsOf(snippet)).map((name) => `export { ${name} as ${typeOf(nth, name)} } from './snippet-${nth}';`),
    );
    await writeFile(join(project, 'workflows.ts'), [...exported, "export * from './render-all';"].join('\n'));
  },
});

const BODY = 'body';

function runsOf({ runs }: Pasted): Record<string, unknown[]> {
  return runs ?? { [BODY]: [] };
}

function typeOf(nth: number, name: string): string {
  return `${name}${nth}`;
}

const ALL = typescriptOf(pages());

function codeOf({ page, has }: Pasted): string {
  const found = ALL.filter(({ at, code }) => at.startsWith(`${page}:`) && code.includes(has));
  assert.equal(found.length, 1, `${page} has ${found.length} snippets with ${has}`);
  return found[0]?.code ?? '';
}

/** The snippet as a module. Its imports and declarations stay; statements at the top become the body of a Workflow. */
function moduleOf(snippet: Pasted): string {
  const source = ts.createSourceFile('snippet.ts', codeOf(snippet), ts.ScriptTarget.ES2022, true);
  const [top, body]: [string[], string[]] = [[], []];
  for (const statement of source.statements) {
    const text = statement.getText(source);
    // The worker's lines of a snippet that shows both sides.
    if (/from 'temporal-semaphore\/worker'|Worker\.create/.test(text)) continue;
    (ts.isExpressionStatement(statement) ? body : top).push(text);
  }
  const own = top.join('\n');
  const known = `${own}\n${snippet.given ?? ''}`;
  const isFree = (name: string) => !new RegExp(`(const|function) ${name}\\b|import {[^}]*\\b${name}\\b`).test(known);
  const ours = ['Semaphore', 'withPermits', 'PermitTimeoutError'].filter(isFree);
  return [
    "import { proxyActivities } from '@temporalio/workflow';",
    `import { ${ours.join(', ') || 'Semaphore as _'} } from 'temporal-semaphore/workflow';`,
    `const { ${ACTIVITY_NAMES.filter(isFree).join(', ')} } = proxyActivities<any>({`,
    "  startToCloseTimeout: '1 minute',",
    "  heartbeatTimeout: '10s',",
    "  cancellationType: 'WAIT_CANCELLATION_COMPLETED',",
    '});',
    snippet.given ?? '',
    own,
    snippet.runs ? '' : `export async function ${BODY}(): Promise<void> {\n${body.join('\n')}\n}`,
  ].join('\n');
}

test('each snippet of the pages that takes a permit in a Workflow is run here', () => {
  const inWorkflows = ALL.filter(({ at, code }) => {
    const isOurs = at.startsWith('docs/') && /\.withPermit\(|withPermits\(/.test(code);
    return isOurs && !/SemaphoreClient\(|PermitPool\(|from 'temporal-semaphore\/(client|operator)'/.test(code);
  });
  const pasted = new Set(SNIPPETS.map(codeOf));
  assert.deepEqual(
    inWorkflows.filter(({ code }) => !pasted.has(code)).map(({ at }) => at),
    [],
  );
});

for (const [nth, snippet] of SNIPPETS.entries()) {
  test(`the README's worker runs the snippet of ${snippet.page} with ${snippet.has}, and it ends`, async () => {
    for (const [name, args] of Object.entries(runsOf(snippet))) {
      const options = { taskQueue: 'training', workflowId: `${name}-${randomUUID()}`, args };
      await program.env.client.workflow.execute(typeOf(nth, name), {
        ...options,
        workflowExecutionTimeout: '2 minutes',
      });
    }
  });
}

test('the snippet of an activity that takes a permit itself runs in the worker of the README, two at once at most', async () => {
  const options = { taskQueue: 'training', workflowId: `render-${randomUUID()}`, args: [['a', 'b', 'c', 'd']] };
  const holds: string[] = await program.env.client.workflow.execute('renderAll', options);
  // Slot, begin and end, in the order of the slots.
  const sorted = holds.map((hold) => hold.split(' ').map(Number) as [number, number, number]);
  sorted.sort(([slot, from], [other, otherFrom]) => slot - other || from - otherFrom);
  assert.equal(sorted.length, 4);
  for (const [at, [slot, from]] of sorted.entries()) {
    const [last, , to] = sorted[at - 1] ?? [];
    assert.ok(slot < 2 && (last !== slot || (to ?? 0) <= from), holds.join(', '));
  }
});

test('and none of them leaves a permit', async () => {
  const isPaced = (snippet: Pasted) => codeOf(snippet).includes('pace:'); // its slot stays taken for a while
  const names = SNIPPETS.filter((snippet) => !isPaced(snippet)).flatMap((snippet) =>
    [...codeOf(snippet).matchAll(/new Semaphore\('([^']+)'/g)].map(([, name]) => name),
  );
  for (const name of new Set(names)) await assertNoPermitLeft(program.env.client, name ?? assert.fail());
});
