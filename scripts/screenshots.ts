import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Client } from '@temporalio/client';
import type { Browser } from 'playwright-core';
import { startDashboard } from '@/dashboard/server';
import { Operator } from '@/operator';
import { bundlePage } from './support/bundle-page';
import { startChromium } from './support/chromium';
import { withConnection } from './support/connection';
import { bundleExample, installRuntime, TASK_QUEUE, withExampleWorker } from './support/example-worker';
import type { exampleConsumer } from './support/example-workflow';
import { findServer } from './support/find-server';
import { runMain } from './support/main';
import { type ServerProcess, spawnServer } from './support/server-process';

const IMAGES = join(__dirname, '..', 'docs', 'images');
/** A long queue goes beyond it. */
const VIEWPORT = { width: 1200, height: 1080 };

/** Long enough for the timeline to fill. */
const RUN_MS = 290_000;

const RESOURCES = [
  { resource: 'gpu-pool', capacity: 4, arrivalsEveryMs: 2_500, job: 'train' },
  { resource: 'licences', capacity: 2, arrivalsEveryMs: 9_000, job: 'simulate' },
  { resource: 'migrations', capacity: 1, arrivalsEveryMs: 45_000, job: 'migrate' },
];

/** `pnpm screenshots`: the dashboard's pictures for the README, of real Workflows on a real server. Takes five minutes. */
async function main(interrupt: AbortSignal): Promise<number> {
  installRuntime('ERROR');
  const source = await findServer();
  if (!('path' in source)) throw new Error('This needs a server of its own: unset TEMPORAL_SEMAPHORE_SERVER.');
  const [workflowBundle, browser] = await Promise.all([bundleExample(), startChromium()]);
  let server: ServerProcess | undefined;
  try {
    server = await spawnServer(source.path);
    const { address } = server;
    await withConnection({ connectionOptions: { address } }, (connection) =>
      withExampleWorker({ connection, taskQueue: TASK_QUEUE, workflowBundle }, () =>
        picture(new Client({ connection }), browser, interrupt),
      ),
    );
  } finally {
    await browser.close();
    await server?.stop();
  }
  return 0;
}

async function picture(client: Client, browser: Browser, interrupt: AbortSignal): Promise<void> {
  const operators = RESOURCES.map(
    ({ resource, capacity }) => new Operator(client, resource, { capacity, taskQueue: TASK_QUEUE }),
  );
  const session = { namespace: 'default', address: 'localhost:7233', ui: 'http://localhost:8233', readOnly: false };
  const dashboard = await startDashboard({ operators, session, page: await bundlePage() });
  const untilMs = Date.now() + RUN_MS;
  try {
    const pages = await Promise.all(
      (['light', 'dark'] as const).map(async (colorScheme) => {
        const page = await browser.newPage({ viewport: VIEWPORT, colorScheme, locale: 'en-GB' });
        await page.goto(dashboard.url);
        return { page, path: join(IMAGES, `dashboard-${colorScheme}.png`) };
      }),
    );
    await Promise.all(RESOURCES.map((one) => arrive(client, one, untilMs, interrupt)));
    await mkdir(IMAGES, { recursive: true });
    for (const { page, path } of pages) await page.screenshot({ path });
  } finally {
    await dashboard.close();
    await endAll(client);
  }
}

/** Starts one job after the other, whose work takes longer and shorter. */
async function arrive(
  client: Client,
  one: (typeof RESOURCES)[number],
  untilMs: number,
  interrupt: AbortSignal,
): Promise<void> {
  const { resource, capacity, arrivalsEveryMs, job } = one;
  for (let number = 1; Date.now() < untilMs; number++) {
    const holdMs = arrivalsEveryMs * capacity * (0.4 + ((number * 7) % 13) / 10);
    await client.workflow.start<typeof exampleConsumer>('exampleConsumer', {
      workflowId: `${job}-${number}`,
      taskQueue: TASK_QUEUE,
      args: [{ resource, semaphore: { capacity, lease: '30s' }, holdMs }],
      priority: { priorityKey: number % 7 === 0 ? 1 : 3, fairnessKey: number % 3 === 0 ? 'vision' : 'speech' },
    });
    const nextMs = arrivalsEveryMs * (0.53 + ((number * 5) % 11) / 11);
    await delay(Math.min(nextMs, Math.max(0, untilMs - Date.now())), undefined, { signal: interrupt });
  }
}

async function endAll(client: Client): Promise<void> {
  for await (const { workflowId } of client.workflow.list({ query: 'ExecutionStatus = "Running"' })) {
    await client.workflow
      .getHandle(workflowId)
      .terminate()
      .catch(() => undefined);
  }
}

runMain(main);
