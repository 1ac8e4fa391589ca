import { existsSync } from 'node:fs';
import { type Browser, chromium } from 'playwright-core';

const DEBIAN = '/usr/bin/chromium';

/** Root has no sandbox, and a machine may have no network: then it is not to try. */
const FLAGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

/** @throws Error that says how to install it, when it is not there */
export async function startChromium(): Promise<Browser> {
  const executablePath = process.env.CHROMIUM_PATH ?? DEBIAN;
  if (!existsSync(executablePath)) {
    throw new Error(
      `This needs Chromium, and there is no ${executablePath}. On Debian: apt-get install -y chromium; elsewhere, CHROMIUM_PATH names it.`,
    );
  }
  return await chromium.launch({ executablePath, args: FLAGS });
}
