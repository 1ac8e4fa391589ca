import { existsSync } from 'node:fs';
import { type Browser, chromium } from 'playwright-core';
import { npmHasChromium, npmsChromium } from './npms-chromium';

/** Where Debian puts it. */
const DEBIAN = '/usr/bin/chromium';

/** Said where it can't be had. */
export const NO_CHROMIUM =
  'Missing: Chromium, and npm has none for this kind of machine. Get one with: npx -y pnpm@10 exec playwright-core install chromium. Or name one in CHROMIUM_PATH';

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

interface Executable {
  executablePath: string;
  /** What it needs beside our environment. */
  env?: Record<string, string>;
}

/** @throws Error that says how to install it, when it is not there */
export async function startChromium(): Promise<Browser> {
  const { executablePath, env } = await findChromium();
  return await chromium.launch({
    executablePath,
    args: FLAGS,
    env: { ...(process.env as Record<string, string>), ...env },
  });
}

/** The one that `CHROMIUM_PATH` names, the machine's, Playwright's, or that from npm, which is unpacked at its first use. */
async function findChromium(): Promise<Executable> {
  const executablePath = installed();
  if (executablePath && !existsSync(executablePath)) {
    throw new Error(`CHROMIUM_PATH: expected the path of Chromium, got "${executablePath}"`);
  }
  if (executablePath) return { executablePath };
  if (!npmHasChromium()) throw new Error(NO_CHROMIUM);
  return await npmsChromium();
}

export function chromiumIsThere(): boolean {
  return installed() !== undefined || npmHasChromium();
}

function installed(): string | undefined {
  return process.env.CHROMIUM_PATH || [DEBIAN, chromium.executablePath()].find((path) => existsSync(path));
}
