import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { Client, Connection } from '@temporalio/client';
import type { Page } from 'playwright-core';
import { TcpProxy } from '../../scripts/support/tcp-proxy';
import { PermitPool, SemaphoreClient } from '../../src/client';
import { Operator } from '../../src/operator';
import { queueId } from '../../src/shared/permit-id';
import { useBrowser } from '../support/browser';
import { useDashboards } from '../support/dashboards';
import { startHolder, startHolding, untilAt } from '../support/holders';
import { operatorOf } from '../support/operators';
import { eventually, untilWaiting, useTemporal } from '../support/temporal';
import * as workflows from '../support/workflows';

// How the page looks and is gone about, in a real browser.

const temporal = useTemporal();
const browser = useBrowser();
const { start, show, showAs } = useDashboards(temporal);

const WITHIN = { timeout: 20_000 };

/** A pool with a holder, a waiter and a hold that has ended, whose IDs differ at their ends only. */
async function busyPool() {
  const resource = temporal.resource();
  const semaphore = { capacity: 2 };
  const start = (end: string) =>
    temporal.client.workflow.start(workflows.holder, {
      workflowId: `order-processing-of-a-customer-with-quite-a-long-name-${randomUUID()}-${end}`,
      taskQueue: temporal.taskQueue,
      args: [{ resource, semaphore }],
    });
  const finish = async (handle: Awaited<ReturnType<typeof start>>) => {
    await untilAt(handle, 'holding');
    await handle.signal(workflows.finish);
    await handle.result();
  };
  const { url } = await show(resource, semaphore);
  const ended = await start('ended');
  await finish(ended);
  const holders = [await start('first'), await start('second')];
  for (const holder of holders) await untilAt(holder, 'holding');
  const waiter = await start('waiter');
  await untilWaiting(temporal.client, resource, 1);
  const end = async () => {
    for (const handle of [...holders, waiter]) await finish(handle);
  };
  return { resource, url, ended, holders, waiter, end };
}

/** Presses a key until the focus is on an element of this kind. */
async function pressUntil(page: Page, key: string, selector: string): Promise<void> {
  for (let presses = 0; presses < 50; presses++) {
    await page.keyboard.press(key);
    if (await page.evaluate(`document.activeElement.matches(${JSON.stringify(selector)})`)) return;
  }
  assert.fail(`${key} does not lead to ${selector}`);
}

const LAYOUT = `(() => {
  const right = (element) => Math.round(element.getBoundingClientRect().right);
  const tiles = [...document.querySelectorAll('.tiles > div')];
  const bottom = Math.max(...tiles.map((tile) => tile.getBoundingClientRect().bottom));
  const lines = (button) => { const range = document.createRange(); range.selectNodeContents(button); return range.getClientRects().length; };
  return {
    wide: document.documentElement.scrollWidth,
    hole: right(document.querySelector('.tiles')) - 1 - Math.max(...tiles.filter((tile) => tile.getBoundingClientRect().bottom === bottom).map(right)),
    lines: Math.max(...[...document.querySelectorAll('button')].map(lines)),
    ends: [...document.querySelectorAll('.party .cut')].map((cut) => {
      const end = cut.lastElementChild;
      const parent = cut.closest('.party').getBoundingClientRect();
      return end.scrollWidth <= end.clientWidth + 1 && end.getBoundingClientRect().right <= parent.right + 1 ? end.textContent : 'cut';
    }),
  };
})()`;

test('at 390, 768 and 1280 pixels: tiles without a hole, buttons of one line, and of each ID its end', async () => {
  const { url, end } = await busyPool();
  for (const width of [390, 768, 1280]) {
    for (const colorScheme of ['light', 'dark'] as const) {
      const page = await browser.open(url, { viewport: { width, height: 800 }, colorScheme });
      await page.locator('.slot.held').nth(1).waitFor(WITHIN);
      await page.locator('.queue li').first().waitFor(WITHIN);
      await page.locator('.recent li').first().waitFor(WITHIN);
      const { ends, ...layout } = (await page.evaluate(LAYOUT)) as { ends: string[] };
      assert.deepEqual(layout, { wide: width, hole: 0, lines: 1 }, `${width} ${colorScheme}`);
      assert.deepEqual(
        ends.map((text) => text.slice(text.lastIndexOf('-') + 1)).sort(),
        ['ended', 'first', 'second', 'waiter'],
        `${width}`,
      );
      await page.context().close();
    }
  }
  await end();
});

test('by keyboard along the timeline, whose bars and past holds link to Workflows; the title counts', async () => {
  const { resource, url, ended, end } = await busyPool();
  const page = await browser.open(url);
  await page.locator('.recent li').first().waitFor(WITHIN);
  await eventually(async () => assert.equal(await page.title(), `2/2 +1 ${resource}`));
  const link = page.locator('.recent a').first();
  assert.equal(
    await link.getAttribute('href'),
    `http://ui.example/namespaces/default/workflows/${ended.workflowId}/${ended.firstExecutionRunId}/history`,
  );

  await eventually(async () => assert.equal(await page.locator('.timeline .hold').count(), 3));
  await pressUntil(page, 'Tab', '.hold');
  const label = () => page.evaluate('document.activeElement.getAttribute("aria-label")').then(String);
  const seen = new Set([await label()]);
  for (const key of ['ArrowDown', 'ArrowLeft', 'ArrowRight', 'ArrowUp', 'ArrowLeft', 'ArrowRight']) {
    await page.keyboard.press(key);
    seen.add(await label());
  }
  assert.equal(seen.size, 3, [...seen].join('\n'));
  const words = (await label()).split(', ');
  assert.deepEqual((await page.locator('.details').textContent())?.split(' · ').slice(0, 2), words.slice(0, 2));
  assert.match(
    String(await page.evaluate('document.activeElement.href')),
    new RegExp(`/workflows/permit%3A${resource}%3A\\d/[0-9a-f-]{36}/history$`),
  );
  // It is one stop of many bars: the next Tab leaves it.
  await page.keyboard.press('Tab');
  assert.equal(await page.evaluate('document.activeElement.matches(".hold")'), false);
  await end();
});

test("a permit pool's permit says so, and a resource on whose slots its callers disagree", async () => {
  const resource = temporal.resource();
  const { taskQueue } = temporal;
  const { pool, url } = await show(resource, { capacity: 2 });
  await using calls = new PermitPool(pool);
  const permits = [await calls.acquire({ purpose: 'orders' }), await calls.acquire()];
  const page = await browser.open(url);
  await page.locator('.slot.held', { hasText: 'permit pool: orders' }).waitFor(WITHIN);
  assert.equal(await page.getByText(/disagree/).count(), 0);
  const stop = new AbortController();
  const small = new SemaphoreClient(temporal.client, resource, { capacity: 1, taskQueue });
  const waiting = small.acquire({ signal: stop.signal }).catch(() => undefined);
  await page.getByText(/disagree on the slots, so the larger number holds: 2 \(2 of them, .*\), 1 \(/).waitFor(WITHIN);
  stop.abort();
  await waiting;
  await page.getByText(/disagree/).waitFor({ ...WITHIN, state: 'detached' });
  for (const permit of permits) permit.release();
  await page.context().close();
});

test("a stranger's Workflow under the ID of the queue is named, with what to do, and no worker is blamed", async () => {
  const resource = temporal.resource();
  const { pool, url } = await show(resource, { capacity: 2 });
  const permit = await pool.acquire();
  const workflowId = queueId(resource);
  const taskQueue = `nobody-${randomUUID()}`;
  const stranger = await temporal.client.workflow.start('train', { workflowId, taskQueue });
  const page = await browser.open(url);
  await page
    .getByText(/is a Workflow of type "train", not of temporal-semaphore\. .* terminate it by its ID/)
    .waitFor(WITHIN);
  assert.equal(await page.getByText(/does not answer/).count(), 0);
  await stranger.terminate();
  await page.getByText(/not of temporal-semaphore/).waitFor({ ...WITHIN, state: 'detached' });
  await permit.release();
  await page.context().close();
});

test('a holder that gives way says how long it may take', async () => {
  const resource = temporal.resource();
  const { pool, url } = await show(resource, { capacity: 1 });
  const party = await pool.acquire({ priority: { priorityKey: 4 }, preemptible: { grace: '25s' } });
  const page = await browser.open(url);
  await page.locator('.slot.held .lease', { hasText: /^lease / }).waitFor(WITHIN);
  const alarm = pool.acquire({ priority: { priorityKey: 1 }, preempt: true });
  await page.locator('.slot.held .lease', { hasText: /^gives way within \d+/ }).waitFor(WITHIN);
  await party.release();
  await page.locator('.slot.held .lease', { hasText: /^lease / }).waitFor(WITHIN);
  await (await alarm).release();
  await page.context().close();
});

test('a search shows the slots, waiters and past holds of that name, and the pools that have any', async () => {
  const { resource, url: _url, end } = await busyPool();
  const other = temporal.resource('other');
  const { handle } = await startHolding(temporal, { resource: other, semaphore: { capacity: 1 } });
  const { url } = await showAs(`${resource}=2`, `${other}=1`);
  const page = await browser.open(url);
  await page.locator('.slot.held').nth(1).waitFor(WITHIN);
  await page.locator('.queue li').first().waitFor(WITHIN);
  await page.keyboard.press('/');
  await page.keyboard.type('-second');
  const counts = () =>
    Promise.all(['.resources a', '.slot', '.queue li'].map((selector) => page.locator(selector).count()));
  await eventually(async () => assert.deepEqual(await counts(), [1, 1, 0]));
  await page.getByText('No waiter matches.').waitFor();
  await page.keyboard.press('Escape');
  await eventually(async () => assert.deepEqual(await counts(), [2, 2, 1]));
  await handle.signal(workflows.finish);
  await handle.result();
  await end();
});

test('while nobody answers for the queue, its waiters are shown as of the last look, or as not known', async () => {
  const resource = temporal.resource();
  const taskQueue = `${temporal.taskQueue}-gone`;
  const permits = await temporal.worker({ taskQueue });
  const semaphore = { capacity: 1, taskQueue };
  const { handle } = await startHolding(temporal, { resource, semaphore });
  const waiter = await startHolder(temporal, { resource, semaphore, holdMs: 0 });
  await untilWaiting(temporal.client, resource, 1);
  const { url } = await show(resource, { capacity: 1 });
  const page = await browser.open(url);
  await page.locator('.queue li').waitFor(WITHIN);
  await permits.stop();
  await page.getByText(/The waiters are those of \d+:\d+:\d+/).waitFor(WITHIN);
  await page.locator('.queue.old li').waitFor(WITHIN);
  assert.equal(await page.getByText('No waiters.').count(), 0);

  const late = await browser.open((await show(resource, { capacity: 1 })).url);
  await late.getByText('The waiters are unknown until it answers.').waitFor(WITHIN);
  await late.getByText('The waiters are unknown.').waitFor(WITHIN);
  const tile = late.locator('.tiles > div', { hasText: 'Waiting' }).locator('dd').first();
  assert.equal(await tile.textContent(), '?');
  assert.equal(await late.getByText('No waiters.').count(), 0);
  await temporal.worker({ taskQueue });
  await handle.signal(workflows.finish);
  await waiter.result();
});

test('after a while without a page, one does not show as live what has ended meanwhile', async () => {
  const resource = temporal.resource();
  const { handle } = await startHolding(temporal, { resource, semaphore: { capacity: 1 } });
  const { url, pool } = await show(resource, { capacity: 1 });
  const first = await browser.open(url);
  await first.getByRole('button', { name: /^Revoke slot 0/ }).waitFor(WITHIN);
  await first.context().close();
  await eventually(async () => {
    // The pollers linger for some seconds. Nobody looks when they have stopped.
    const inspect = operatorOf(pool).inspect.bind(operatorOf(pool));
    let looks = 0;
    operatorOf(pool).inspect = async (options) => {
      looks++;
      return await inspect(options);
    };
    await new Promise((resolve) => setTimeout(resolve, 1_500));
    operatorOf(pool).inspect = inspect;
    assert.equal(looks, 0);
  });
  const inspect = operatorOf(pool).inspect.bind(operatorOf(pool));
  let goOn: () => void = () => undefined;
  const held = new Promise<void>((resolve) => {
    goOn = resolve;
  });
  operatorOf(pool).inspect = async (options) => {
    await held;
    return await inspect(options);
  };
  await handle.signal(workflows.finish);
  await handle.result();
  const page = await browser.open(url);
  await page.getByText(/This page shows the resource as of \d+:\d+:\d+/).waitFor(WITHIN);
  assert.ok(await page.getByRole('button', { name: /^Revoke slot 0/ }).isDisabled());
  assert.ok(await page.getByRole('button', { name: 'Pause …' }).isDisabled());
  assert.equal(await page.title(), `? ${resource}`);
  goOn();
  await page.locator('.slot.free').waitFor(WITHIN);
  assert.ok(await page.getByRole('button', { name: 'Pause …' }).isEnabled());
  assert.equal(await page.getByText(/This page shows the resource as of/).count(), 0);
});

test('while Temporal is silent, the page says so at its top and how old it is, and lets nobody act', async (t) => {
  const proxy = await TcpProxy.to(temporal.env.address);
  t.after(() => proxy.close());
  const connection = await Connection.connect({ address: proxy.address });
  t.after(() => connection.close());
  const { taskQueue } = temporal;
  const resource = temporal.resource();
  const { handle } = await startHolding(temporal, { resource, semaphore: { capacity: 1 } });
  const through = (name: string) => new Operator(new Client({ connection }), name, { capacity: 1, taskQueue });
  const { url } = await start({ operators: [through(resource), through(temporal.resource('other'))] });
  const page = await browser.open(url);
  await page.locator('.slot.held').waitFor(WITHIN);
  const link = page.locator('.link');
  assert.equal(await link.textContent(), 'Live');
  assert.equal(await page.locator('.banner').count(), 0);

  proxy.cut('silent');
  const banner = page.locator('.banner');
  await banner.getByText(/^The page gets nothing from Temporal: /).waitFor(WITHIN);
  await banner.getByText(/^This page shows what was at \d+:\d+:\d+, \d+ s ago\./).waitFor(WITHIN);
  assert.equal(await link.textContent(), 'Not live');
  assert.match((await page.locator('.where').textContent()) ?? '', /\d+ s old$/);
  assert.equal(await page.getByText('Live', { exact: true }).count(), 0);
  assert.equal(await page.title(), `? ${resource}`);
  assert.equal(await page.locator('.resources .bad').count(), 0, 'it is said once');
  for (const button of await page.getByRole('button').all()) assert.ok(await button.isDisabled());
  await page.evaluate('scrollTo(0, document.body.scrollHeight)');
  assert.equal(await page.evaluate('document.querySelector(".banner").getBoundingClientRect().top'), 0);

  proxy.mend();
  await page.getByText('Live', { exact: true }).waitFor(WITHIN);
  assert.equal(await banner.count(), 0);
  await handle.signal(workflows.finish);
  await handle.result();
});

test('the page opens on the resource that needs a person most, and stays there', async () => {
  const taskQueue = `${temporal.taskQueue}-going`;
  const permits = await temporal.worker({ taskQueue });
  const [idle, held, waited, stuck] = ['idle', 'held', 'waited', 'stuck'].map((name) => temporal.resource(name));
  const semaphores = new Map([
    [held, { capacity: 1 }],
    [waited, { capacity: 1 }],
    [stuck, { capacity: 1, taskQueue }],
  ]);
  const holders = [];
  for (const [resource = '', semaphore] of semaphores)
    holders.push(await startHolding(temporal, { resource, semaphore }));
  const waiters = [];
  for (const resource of [waited, waited, stuck]) {
    const semaphore = semaphores.get(resource) ?? assert.fail();
    waiters.push(await startHolder(temporal, { resource: resource ?? '', semaphore, holdMs: 0 }));
  }
  await untilWaiting(temporal.client, waited ?? '', 2);
  await untilWaiting(temporal.client, stuck ?? '', 1);

  const named = [idle, held, stuck, waited].map((resource) => `${resource}=1`);
  const { url } = await showAs(...named);
  const page = await browser.open(url);
  const heading = page.getByRole('heading', { level: 2 });
  assert.equal(await heading.textContent(WITHIN), waited, 'the first that it shows');
  await permits.stop();
  await page
    .locator('.resources a', { hasText: `${stuck}` })
    .locator('.bad')
    .waitFor(WITHIN);
  assert.equal(await heading.textContent(), waited);

  const { url: anew } = await showAs(...named);
  const another = await eventually(async () => {
    const opened = await browser.open(anew);
    const text = await opened.getByRole('heading', { level: 2 }).textContent(WITHIN);
    // On a busy machine the first look may take longer than a page waits. The next page knows what that look found.
    if (text !== stuck) await opened.context().close();
    assert.equal(text, stuck);
    return opened;
  });
  await another.locator('.resources a', { hasText: `${held}` }).click();
  await another.getByRole('heading', { level: 2, name: held }).waitFor(WITHIN);

  await temporal.worker({ taskQueue });
  for (const { handle } of holders) await handle.signal(workflows.finish);
  for (const handle of [...holders.map(({ handle }) => handle), ...waiters]) await handle.result();
});

test('a busy resource that nobody named, whose permits alone state the capacity, is paused and resumed, on their task queue', async () => {
  const resource = temporal.resource('busy');
  const taskQueue = `${temporal.taskQueue}-theirs`;
  await temporal.worker({ taskQueue });
  const semaphore = { capacity: 2, taskQueue };
  const { handle } = await startHolding(temporal, { resource, semaphore });
  const { url } = await showAs();
  const page = await browser.open(`${url}#${resource}`);
  await page.locator('.slot.free').waitFor(WITHIN);
  assert.equal(await page.locator('.slot').count(), 2);
  await page.getByRole('button', { name: /^Revoke slot/ }).waitFor(WITHIN);
  await page.getByRole('button', { name: 'Resize …' }).waitFor(WITHIN);
  await page.getByRole('button', { name: 'Pause …' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Pause' }).click();
  await page.locator('.title .badge', { hasText: 'paused' }).waitFor(WITHIN);
  await page.locator('.slot.drained').waitFor(WITHIN);
  const pool = new SemaphoreClient(temporal.client, resource, semaphore);
  assert.equal(await pool.tryAcquire(), undefined);
  await page.getByRole('button', { name: 'Resume …' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Resume' }).click();
  await page.locator('.slot.free').waitFor(WITHIN);
  await handle.signal(workflows.finish);
  await handle.result();
});

test('of a long line ten are shown, and then all; of a hold, the colour says what has become of it', async () => {
  const resource = temporal.resource();
  const { pool, url } = await show(resource, { capacity: 1 });
  const revoked = await pool.acquire();
  const page = await browser.open(url, { viewport: { width: 390, height: 844 } });
  await page.locator('.slot.kind-held').waitFor(WITHIN);
  await page.locator('.timeline .hold.kind-held').waitFor(WITHIN);
  await operatorOf(pool).revoke('0', { runId: revoked.runId });
  await page.locator('.timeline .hold.kind-cut-short').waitFor(WITHIN);
  await page.locator('.recent .number.kind-cut-short').waitFor(WITHIN);
  assert.deepEqual(await page.locator('.legend li').allTextContents(), [
    'held now',
    'released',
    'gave way',
    'cut short',
    'out of use',
  ]);

  const { handle } = await startHolding(temporal, { resource, semaphore: { capacity: 1 } });
  const wait = () => startHolder(temporal, { resource, semaphore: { capacity: 1 }, holdMs: 0 });
  const waiters = await Promise.all(Array.from({ length: 13 }, wait));
  await untilWaiting(temporal.client, resource, 13);
  await page.getByRole('button', { name: 'Show all 13' }).click();
  await eventually(async () => assert.equal(await page.locator('.queue li').count(), 13));
  await page.getByRole('button', { name: 'Show the first 10' }).click();
  await eventually(async () => assert.equal(await page.locator('.queue li').count(), 10));
  await page.locator('.load figcaption', { hasText: 'Waiting at most 13' }).waitFor(WITHIN);
  await page
    .locator('.load .plot.line rect')
    .last()
    .waitFor({ ...WITHIN, state: 'attached' });
  assert.equal(await page.evaluate('document.documentElement.scrollWidth'), 390);
  await handle.signal(workflows.finish);
  for (const one of [handle, ...waiters]) await one.result();
});
