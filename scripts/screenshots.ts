import { mkdir } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { Client } from '@temporalio/client';
import type { Browser, Page } from 'playwright-core';
import { DashboardResources } from '@/cli/dashboard';
import { type Dashboard, startDashboard } from '@/dashboard/server';
import { Operator } from '@/operator';
import { startChromium } from '../test/support/chromium';
import { bundlePage } from './support/bundle-page';
import { withConnection } from './support/connection';
import { bundleExample, installRuntime, TASK_QUEUE, withExampleWorker } from './support/example-worker';
import type { exampleConsumer } from './support/example-workflow';
import { findServer } from './support/find-server';
import { runMain } from './support/main';
import { type ServerProcess, spawnServer } from './support/server-process';

const IMAGES = join(__dirname, '..', 'docs', 'images');
const VIEWPORT = { width: 1200, height: 1080 };
/** From the name of the resource to the timeline: the README shows neither the tiles above nor the tables below. */
const PART = { x: 0, y: 194, width: 1200, height: 656 };
const SCHEMES = ['light', 'dark'] as const;

/** Longer than the timeline, so that bars reach beyond its left edge. */
const RUN_MS = 330_000;

const RESOURCES = [
  { resource: 'gpu-pool', capacity: 4, arrivalsEveryMs: 2_500, job: 'train' },
  { resource: 'licences', capacity: 2, arrivalsEveryMs: 9_000, job: 'simulate' },
  { resource: 'migrations', capacity: 1, arrivalsEveryMs: 45_000, job: 'migrate' },
];

/** What operators read on the card of a slot. */
const PURPOSES = ['nightly retraining', 'customer 4711', 'A/B test of the tokenizer', 'evaluation of release 12'];

/** Of a telephone, and of a desk. */
const WIDTHS = [390, 1280];
const BUSY_MS = 75_000;
/** Come at once, so that some wait from then on. */
const RUSH = 9;
const WAITERS = 50;
/** Longer than the page believes that a server which is silent will answer. */
const SILENCE_MS = 20_000;

interface Stage {
  client: Client;
  server: ServerProcess;
  browser: Browser;
  interrupt: AbortSignal;
}

/**
 * `pnpm screenshots`: the dashboard's pictures for the README, of real Workflows on a real server. Takes six minutes.
 * `pnpm screenshots --scenes <directory>`: the page empty, with 50 waiters, busy, and without its server, for a desk and for a
 * telephone, light and dark. Takes three minutes.
 */
async function main(interrupt: AbortSignal): Promise<number> {
  const { scenes } = parseArgs({ options: { scenes: { type: 'string' } } }).values;
  installRuntime('ERROR');
  const source = await findServer();
  if (!('path' in source)) throw new Error('This needs a server of its own: unset TEMPORAL_SEMAPHORE_SERVER.');
  const [workflowBundle, browser] = await Promise.all([bundleExample(), startChromium()]);
  let server: ServerProcess | undefined;
  try {
    const started = await spawnServer(source.path);
    server = started;
    const { address } = server;
    await withConnection({ connectionOptions: { address } }, (connection) =>
      withExampleWorker({ connection, taskQueue: TASK_QUEUE, workflowBundle }, async () => {
        const stage = { client: new Client({ connection }), server: started, browser, interrupt };
        await (scenes === undefined ? picture(stage) : pictureScenes(stage, resolve(scenes)));
      }),
    );
  } finally {
    await browser.close();
    await server?.stop();
  }
  return 0;
}

const SESSION = { namespace: 'default', address: 'localhost:7233', ui: 'http://localhost:8233', readOnly: false };

/** For the README. */
async function picture({ client, browser, interrupt }: Stage): Promise<void> {
  const operators = RESOURCES.map(
    ({ resource, capacity }) => new Operator(client, resource, { capacity, taskQueue: TASK_QUEUE }),
  );
  const dashboard = await startDashboard({ operators, session: SESSION, page: await bundlePage() });
  const untilMs = Date.now() + RUN_MS;
  try {
    const pages = await Promise.all(
      SCHEMES.map(async (colorScheme) => {
        const page = await browser.newPage({ viewport: VIEWPORT, colorScheme, locale: 'en-GB' });
        await page.goto(`${dashboard.url}#${RESOURCES[0]?.resource}`);
        return { page, path: join(IMAGES, `dashboard-${colorScheme}.png`) };
      }),
    );
    await Promise.all(RESOURCES.map((one) => arrive(client, one, untilMs, interrupt)));
    await mkdir(IMAGES, { recursive: true });
    for (const { page, path } of pages) await page.screenshot({ path, clip: PART });
  } finally {
    await dashboard.close();
    await endAll(client);
  }
}

/** The page as `temporal-semaphore dashboard` shows it, without any resource named, in four scenes. */
async function pictureScenes({ client, server, browser, interrupt }: Stage, directory: string): Promise<void> {
  await mkdir(directory, { recursive: true });
  const finder = new DashboardResources(client, [], TASK_QUEUE);
  const open = async () => await startDashboard({ operators: [], finder, session: SESSION, page: await bundlePage() });
  const take = async (scene: string, pages: Opened[]) => {
    for (const { page, name } of pages) {
      await page.screenshot({ path: join(directory, `${scene}-${name}.png`), fullPage: true });
    }
    console.log(`${scene}: done`);
  };
  let dashboard = await open();
  try {
    const pages = await openAll(browser, dashboard);
    for (const { page } of pages) await page.getByText('No caller holds or waits').waitFor();
    await take('empty', pages);

    const crowd = { resource: 'evaluations', capacity: 3, arrivalsEveryMs: RUN_MS, job: 'evaluate' };
    await Promise.all(Array.from({ length: 3 + WAITERS }, (_, index) => start(client, crowd, index + 1, RUN_MS)));
    for (const { page } of pages) await page.locator('.queue').getByText('50').first().waitFor({ timeout: 60_000 });
    await take('waiters', pages);
    await endAll(client);
    await dashboard.close();

    const untilMs = Date.now() + BUSY_MS;
    dashboard = await open();
    const busy = await openAll(browser, dashboard);
    // The least in need of attention is found first.
    const inTurn = [...RESOURCES].reverse().map(async (one, index) => {
      await delay(index * 12_000, undefined, { signal: interrupt });
      await arrive(client, one, untilMs, interrupt);
    });
    await Promise.all([...inTurn, rush(client, interrupt)]);
    const reopened = await openAll(browser, dashboard);
    await delay(3_000, undefined, { signal: interrupt });
    await take('busy', reopened);
    server.signal('SIGSTOP');
    await delay(SILENCE_MS, undefined, { signal: interrupt });
    await take('gone', reopened);
    server.signal('SIGCONT');
    for (const { page } of [...pages, ...busy]) await page.close();
  } finally {
    await dashboard.close();
    await endAll(client);
  }
}

interface Opened {
  page: Page;
  /** Its width and its colours. */
  name: string;
}

async function openAll(browser: Browser, { url }: Dashboard): Promise<Opened[]> {
  const all = WIDTHS.flatMap((width) => SCHEMES.map((colorScheme) => ({ width, colorScheme })));
  return await Promise.all(
    all.map(async ({ width, colorScheme }) => {
      const viewport = { width, height: width < 600 ? 844 : 800 };
      const page = await browser.newPage({ viewport, colorScheme, locale: 'en-GB' });
      await page.goto(url);
      return { page, name: `${width}-${colorScheme}` };
    }),
  );
}

type Arrivals = (typeof RESOURCES)[number];

/** Starts one job after the other, whose work takes longer and shorter. */
async function arrive(client: Client, one: Arrivals, untilMs: number, interrupt: AbortSignal): Promise<void> {
  const { capacity, arrivalsEveryMs } = one;
  for (let number = 1; Date.now() < untilMs; number++) {
    const holdMs = arrivalsEveryMs * capacity * (0.4 + ((number * 7) % 13) / 10);
    await start(client, one, number, holdMs);
    const nextMs = arrivalsEveryMs * (0.53 + ((number * 5) % 11) / 11);
    await delay(Math.min(nextMs, Math.max(0, untilMs - Date.now())), undefined, { signal: interrupt });
  }
}

async function rush(client: Client, interrupt: AbortSignal): Promise<void> {
  const [busiest] = RESOURCES;
  if (!busiest) return;
  await delay(BUSY_MS / 2, undefined, { signal: interrupt });
  for (let number = 1; number <= RUSH; number++) {
    await start(client, { ...busiest, job: 'retrain' }, number, busiest.arrivalsEveryMs * busiest.capacity);
  }
}

async function start(
  client: Client,
  { resource, capacity, job }: Arrivals,
  number: number,
  holdMs: number,
): Promise<void> {
  await client.workflow.start<typeof exampleConsumer>('exampleConsumer', {
    workflowId: `${job}-${number}`,
    taskQueue: TASK_QUEUE,
    args: [{ resource, semaphore: { capacity, lease: '30s' }, holdMs, purpose: PURPOSES[number % PURPOSES.length] }],
    priority: { priorityKey: number % 7 === 0 ? 1 : 3, fairnessKey: number % 3 === 0 ? 'vision' : 'speech' },
  });
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
