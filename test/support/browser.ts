import assert from 'node:assert/strict';
import { after, afterEach, before } from 'node:test';
import type { Browser, BrowserContextOptions, Page } from 'playwright-core';
import { startChromium } from './chromium';
import { eventually } from './temporal';

interface TestBrowser {
  /** Opens a page, and lets the test fail if it complains: errors, and violations of its content security policy. */
  open(url: string, options?: BrowserContextOptions): Promise<Page>;
  /** Opens a page that may complain. */
  openUnwatched(url: string): Promise<Page>;
}

/** A real Chromium for one test file. Call it at the top. */
export function useBrowser(): TestBrowser {
  let browser: Browser;
  let complaints: string[] = [];

  before(async () => {
    browser = await startChromium();
  });

  afterEach(async () => {
    await Promise.all(browser.contexts().map((context) => context.close()));
    const said = complaints;
    complaints = [];
    assert.deepEqual(said, []);
  });

  after(async () => {
    await browser?.close();
  });

  return {
    async open(url, options) {
      const page = await browser.newPage(options);
      page.on('pageerror', (error) => complaints.push(error.message));
      page.on('console', (message) => {
        if (message.type() === 'error' || message.type() === 'warning') complaints.push(message.text());
      });
      await page.goto(url);
      return page;
    },
    async openUnwatched(url) {
      const page = await browser.newPage();
      await page.goto(url);
      return page;
    },
  };
}

export async function assertCount(page: Page, selector: string, count: number): Promise<void> {
  await eventually(async () => assert.equal(await page.locator(selector).count(), count, selector));
}
