import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { diesWithUs } from './dies-with-us';

const ROOT = join(__dirname, '..', '..');

/** How a run of tests ended, for a table. */
export interface TestRun {
  readonly passed: boolean;
  readonly what: string;
}

/**
 * Runs tests in a process of their own, and shows what they print.
 *
 * @param args those of `pnpm test`
 * @param project the directory of a copy of the project
 */
export async function runTests(
  args: readonly string[],
  { project = ROOT, env = {} }: { project?: string; env?: Record<string, string> },
): Promise<TestRun> {
  const runner = spawn(process.execPath, ['--import', 'tsx', join('scripts', 'test.ts'), ...args], {
    cwd: project,
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  diesWithUs(runner, 'SIGTERM');
  let output = '';
  runner.stdout.setEncoding('utf8').on('data', (text: string) => {
    output += text;
    process.stdout.write(text);
  });
  const [code] = await once(runner, 'close');
  const count = (what: string) => Number(new RegExp(`^ℹ ${what} (\\d+)$`, 'm').exec(output)?.[1] ?? 0);
  const failed = [...new Set([...output.matchAll(/^✖ (.+) \([\d.]+ms\)$/gm)].map(([, name]) => name))];
  const what = [`${count('pass')} passed`, `${count('fail')} failed`, `${count('skipped')} left out`];
  if (failed.length > 0) what.push(`failed: ${failed.join('; ')}`);
  return { passed: code === 0 && count('pass') > 0, what: what.join(', ') };
}
