import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { Client } from '@temporalio/client';
import type { Page } from 'playwright-core';
import { DashboardResources } from '../../src/cli/dashboard';
import { resolveAccess } from '../../src/dashboard/access';
import { Operator } from '../../src/operator';
import { keyResource } from '../../src/shared/key-names';
import { permitId } from '../../src/shared/permit-id';
import { PERMIT_WORKFLOW } from '../../src/shared/protocol';
import { assertCount, useBrowser } from '../support/browser';
import { useDashboards } from '../support/dashboards';
import { assertFails, startHolder, startHolding, untilAt } from '../support/holders';
import { operatorOf } from '../support/operators';
import { clientOf } from '../support/sets';
import { until, untilWaiting, useTemporal } from '../support/temporal';

const temporal = useTemporal();
const browser = useBrowser();
const { start, show, showAs } = useDashboards(temporal);

const LONG = 'a-rather-long-name-of-a-pool-that-somebody-gave-it-without-thinking-of-telephones';

/** Presses Tab until the element of this name has the focus. */
async function tabTo(page: Page, name: RegExp): Promise<void> {
  const label = 'document.activeElement.getAttribute("aria-label") ?? document.activeElement.textContent';
  for (let presses = 0; presses < 50; presses++) {
    await page.keyboard.press('Tab');
    if (name.test(String(await page.evaluate(label)))) return;
  }
  assert.fail(`Tab does not lead to ${name}`);
}

test('a revoke from the page tells the holder why, and the next one gets the slot', async () => {
  const resource = temporal.resource();
  const semaphore = { capacity: 1 };
  const first = await startHolding(temporal, { resource, semaphore });
  const next = await startHolder(temporal, { resource, semaphore });
  await untilWaiting(temporal.client, resource, 1);
  const { url } = await show(resource, semaphore);
  const page = await browser.open(url);

  await page.getByRole('button', { name: `Revoke slot 0, held by ${first.handle.workflowId}` }).click();
  await page.getByLabel('Reason').fill('stuck for an hour');
  await page.getByRole('dialog').getByRole('button', { name: 'Revoke' }).click();

  await assertFails(first.handle.result(), 'PermitLostError', /stuck for an hour/);
  await untilAt(next, 'holding');
  await page.getByRole('button', { name: `Revoke slot 0, held by ${next.workflowId}` }).waitFor();
  await page
    .getByRole('status')
    .getByText(/was taken from/)
    .waitFor();
  await next.signal('finish');
  await next.result();
});

test('by keyboard alone: to the button, back out, in again, and revoked', async () => {
  const resource = temporal.resource();
  const semaphore = { capacity: 1 };
  const { handle } = await startHolding(temporal, { resource, semaphore });
  const { url } = await show(resource, semaphore);
  const page = await browser.open(url);
  await page.getByRole('button', { name: /^Revoke slot 0/ }).waitFor();

  await tabTo(page, /^Revoke slot 0/);
  assert.equal(await page.evaluate('getComputedStyle(document.activeElement).outlineStyle'), 'solid');
  await page.keyboard.press('Enter');
  await page.getByRole('dialog').waitFor();
  await page.keyboard.press('Escape');
  await assertCount(page, 'dialog', 0);
  assert.match(String(await page.evaluate('document.activeElement.ariaLabel')), /^Revoke slot 0/);
  assert.equal((await handle.describe()).status.name, 'RUNNING');

  await page.keyboard.press('Enter');
  await page.getByRole('dialog').waitFor();
  await page.keyboard.type('by keyboard');
  await page.keyboard.press('Enter');
  await assertFails(handle.result(), 'PermitLostError', /by keyboard/);
  await assertCount(page, '.slot.free', 1);
});

test('who is asked about a permit that has ended meanwhile can not revoke its successor', async () => {
  const resource = temporal.resource();
  const semaphore = { capacity: 1 };
  const { handle } = await startHolding(temporal, { resource, semaphore });
  const { url } = await show(resource, semaphore);
  const page = await browser.open(url);
  await page.getByRole('button', { name: /^Revoke slot 0/ }).click();
  await handle.signal('finish');
  await page.getByText('This permit has ended in the meantime.').waitFor();
  assert.ok(await page.getByRole('dialog').getByRole('button', { name: 'Revoke' }).isDisabled());
});

test('resize, pause and resume', async () => {
  const resource = temporal.resource();
  const { url, pool } = await show(resource, { capacity: 2 });
  const page = await browser.open(url);
  await assertCount(page, '.slot.free', 2);
  const confirm = async (button: string, verb: string) => {
    await page.getByRole('button', { name: button }).click();
    if (verb === 'Resize') await page.getByLabel('Capacity').fill('3');
    if (verb !== 'Resume') await page.getByLabel('Reason').fill('a test');
    await page.getByRole('dialog').getByRole('button', { name: verb }).click();
    await assertCount(page, 'dialog', 0);
  };
  await confirm('Pause …', 'Pause');
  await page.getByText('paused', { exact: true }).waitFor();
  await page.getByText('“a test”').waitFor();
  await assertCount(page, '.slot.drained', 2);
  await confirm('Resume …', 'Resume');
  await assertCount(page, '.slot.free', 2);
  await operatorOf(pool).pause({ until: new Date(Date.now() + 60_000) });
  await page.locator('.badge', { hasText: /^paused until .*\d\d:\d\d:\d\d$/ }).waitFor();
  await operatorOf(pool).resume();
  await assertCount(page, '.slot.free', 2);
  await confirm('Resize …', 'Resize');
  await assertCount(page, '.slot', 3);
  await operatorOf(pool).resize(2);
  await assertCount(page, '.slot', 2);
});

test('the keys of a resource are listed; one opens as a resource of its own, and is resized there', async () => {
  const resource = temporal.resource();
  const acme = keyResource(resource, 'acme');
  const keyed = clientOf(temporal, resource, { capacity: 5, perKey: 2 });
  const held = await Promise.all(['acme', 'acme', 'other'].map((key) => keyed.acquire({ key })));
  const waiting = keyed.acquire({ key: 'acme' });
  await untilWaiting(temporal.client, acme, 1);
  const { url } = await showAs();
  const page = await browser.open(`${url}#${encodeURIComponent(resource)}`);
  const keys = page.getByRole('region', { name: /^Keys 2/ });
  await keys.getByText('2 held').waitFor();
  assert.equal(await keys.getByText('with a queue').count(), 1);
  await keys.getByTitle(acme).click();
  await page.getByRole('heading', { name: acme }).waitFor();
  await assertCount(page, '.slot.held', 2);
  await assertCount(page, '.queue li', 1);

  await page.getByRole('button', { name: 'Resize …' }).click();
  await page.getByLabel('Capacity').fill('3');
  await page.getByLabel('Reason').fill('a bigger plan');
  await page.getByRole('dialog').getByRole('button', { name: 'Resize' }).click();
  await assertCount(page, '.slot.held', 3);
  await page.getByText('resized to 3', { exact: true }).waitFor();
  await page.getByText('“a bigger plan”').waitFor();
  await (await waiting).release();

  const rows = page.getByRole('navigation', { name: 'Resources' }).getByRole('link');
  const row = (name: string) => rows.filter({ has: page.getByTitle(name, { exact: true }) });
  assert.equal(await row(acme).count(), 1);
  await row(resource).click();
  await page.getByRole('heading', { name: resource, exact: true }).waitFor();
  await until(async () => (await row(acme).count()) === 0); // no page shows the key, so nobody looks at it
  await new Operator(temporal.client, resource, { key: 'acme' }).resize(2);
  for (const permit of held) await permit.release();
});

test('resources that nobody named are found; how many slots with names there are is known once somebody waits', async () => {
  const resource = temporal.resource();
  const semaphore = { slots: ['red', 'blue'] };
  const holders = [await startHolding(temporal, { resource, semaphore })];
  const { url } = await showAs();
  const page = await browser.open(`${url}#${encodeURIComponent(resource)}`);
  await page.getByRole('heading', { name: resource }).waitFor();
  await assertCount(page, '.slot', 1);
  await page.getByText('The number of slots is unknown').waitFor();
  assert.equal(await page.getByRole('button', { name: 'Resize …' }).count(), 0);
  await page.getByRole('button', { name: /^Revoke slot/ }).waitFor();

  holders.push(await startHolding(temporal, { resource, semaphore }));
  const waiting = await startHolder(temporal, { resource, semaphore });
  await page.getByRole('button', { name: 'Resize …' }).waitFor();
  await assertCount(page, '.slot.held', 2);
  for (const { handle } of holders) await handle.signal('finish');
  await untilAt(waiting, 'holding');
  await waiting.signal('finish');
  await waiting.result();
  await assertCount(page, '.slot.free', 2);
});

test('where the search for resources fails, the page says why, and not that nobody holds a permit', async () => {
  const { connection } = temporal.client;
  const client = new Client({ connection, namespace: 'prodution' });
  const { url } = await start({ operators: [], finder: new DashboardResources(client, []) });
  const page = await browser.open(url);
  await page.getByText("can't find the resources in use: Namespace not found: 'prodution'").waitFor();
});

test('an order that is under way keeps its question open until it has an answer', async () => {
  const resource = temporal.resource();
  const { url, pool } = await show(resource, { capacity: 1 });
  const page = await browser.open(url);
  let answer = () => {};
  const answered = new Promise<void>((resolve) => {
    answer = resolve;
  });
  await page.route('**/actions', async (route) => {
    await answered;
    await route.continue();
  });
  await page.getByRole('button', { name: 'Pause …' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByRole('button', { name: 'Pause' }).click();
  await page.keyboard.press('Escape');
  assert.equal(await dialog.getByRole('button', { name: 'Cancel' }).isDisabled(), true);
  answer();
  await page.getByRole('status').getByText(`${resource} is paused.`).waitFor();
  await assertCount(page, 'dialog', 0);
  await operatorOf(pool).resume();
});

test('a holder whose name has half a character hides nobody from the page', async () => {
  const resource = temporal.resource();
  const memo = (value: unknown) => ({
    metadata: { encoding: Buffer.from('json/plain') },
    data: Buffer.from(JSON.stringify(value)),
  });
  const workflowId = permitId({ resource, slot: '0' });
  await temporal.client.workflowService.startWorkflowExecution({
    namespace: 'default',
    workflowId,
    workflowType: { name: PERMIT_WORKFLOW },
    taskQueue: { name: 'of-nobody' },
    requestId: randomUUID(),
    memo: { fields: { holder: memo({ workflowId: 'odd\ud800' }) } },
  });
  const { url, pool } = await show(resource, { capacity: 2 });
  const permit = (await pool.tryAcquire()) ?? assert.fail();
  const page = await browser.open(url);
  await assertCount(page, '.slot.held', 2);
  await page.getByRole('button', { name: 'Revoke slot 0, held by odd\ufffd' }).waitFor();
  await temporal.client.workflow.getHandle(workflowId).terminate();
  await permit.release();
});

test('two dashboards of one host, each with its token, are open at once', async () => {
  const open = async (token: string) => {
    const { url } = await start({ operators: [], access: resolveAccess('127.0.0.1', token) });
    return { url, visit: `${url}?token=${token}` };
  };
  const [one, other] = [await open('the-token-of-production'), await open('the-token-of-staging')];
  const page = await browser.open(one.visit);
  await page.goto(other.visit);
  assert.equal((await page.goto(one.url))?.status(), 200);
});

test('names are text, whatever they are', async () => {
  const hostile = '<img src=x onerror=window.hacked=1>';
  const resource = temporal.resource(hostile);
  const { url, pool } = await show(resource, { slots: [hostile, '"><script>hacked=1</script>'] });
  const permits = [
    await pool.tryAcquire({ purpose: `${hostile}</p><svg onload=hacked=1>` }),
    await pool.tryAcquire({ purpose: "javascript:hacked=1//' onclick=hacked=1" }),
  ];
  const page = await browser.open(url);
  await assertCount(page, '.slot.held', 2);
  await page.getByRole('heading', { name: resource }).waitFor();
  await page
    .getByRole('button', { name: /^Revoke slot/ })
    .first()
    .click();
  await page.getByRole('dialog').getByText(resource).first().waitFor();
  assert.equal(await page.locator('img').count(), 1, 'our own mark');
  assert.equal(await page.locator('.slot script, .slot svg').count(), 0);
  assert.equal(await page.evaluate('typeof hacked'), 'undefined');
  const links = (await page.evaluate('[...document.links].map(({ href }) => href)')) as string[];
  for (const href of links) assert.match(href, /^http/);
  await Promise.all(permits.map((permit) => permit?.release()));
});

test('on a telephone, nothing is wider than the screen', async () => {
  const resource = temporal.resource(LONG);
  const semaphore = { slots: ['a-slot-with-quite-a-long-name-too', 'b'] };
  const holding = await startHolding(temporal, { resource, semaphore, acquire: { purpose: LONG } });
  const { url, pool } = await show(resource, semaphore);
  const permit = await pool.tryAcquire();
  const waiting = await startHolder(temporal, {
    resource,
    semaphore,
    acquire: { priority: { fairnessKey: LONG.slice(0, 60) } },
  });
  const page = await browser.open(url, { viewport: { width: 375, height: 700 } });
  await assertCount(page, '.slot.held', 2);
  await assertCount(page, '.queue li', 1);
  const widest =
    'Math.max(...[...document.querySelectorAll("main *:not(.sheet *)")].map((e) => e.getBoundingClientRect().right))';
  assert.equal(await page.evaluate('document.documentElement.scrollWidth'), 375);
  assert.ok(Number(await page.evaluate(widest)) <= 375);
  await page.getByRole('button', { name: /^Revoke slot b/ }).click();
  assert.equal(await page.evaluate('document.documentElement.scrollWidth'), 375);
  await permit?.release();
  for (const handle of [holding.handle, waiting]) {
    await untilAt(handle, 'holding');
    await handle.signal('finish');
    await handle.result();
  }
});

test('a page finds back to a dashboard that was started anew', async () => {
  const resource = temporal.resource();
  const first = await show(resource, { capacity: 1 });
  const page = await browser.openUnwatched(first.url);
  await page.getByText('Live', { exact: true }).waitFor();
  await first.close();
  await page.getByText('Connection lost').waitFor();
  await page.getByText(/This page shows what was at \d+:\d+:\d+, \d+ s ago/).waitFor();
  for (const name of ['Pause …', 'Resize …']) assert.ok(await page.getByRole('button', { name }).isDisabled(), name);
  await show(resource, { capacity: 2 }, { port: Number(new URL(first.url).port) });
  await page.getByText('Live', { exact: true }).waitFor();
  await assertCount(page, '.slot.free', 2);
  assert.ok(await page.getByRole('button', { name: 'Pause …' }).isEnabled());
});

test('the page ships the licences of what is bundled into it', async () => {
  const { url } = await show(temporal.resource(), { capacity: 1 });
  const licences = await (await fetch(`${url}licences.txt`)).text();
  assert.match(licences, /^preact \d.*MIT License.*Permission is hereby granted/ms);
  assert.match(await (await fetch(`${url}page.js`)).text(), /^\/\* .*\/licences\.txt \*\//);
});
