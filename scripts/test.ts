import { spawn } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { resolveServer } from '@/dev-server/binary';

/**
 * `pnpm test [text…]`: finds the Temporal server once, then runs every test file, or those whose path has one of the texts.
 */
async function main(): Promise<number> {
  const wanted = process.argv.slice(2);
  const files = ['src', 'test']
    .flatMap((directory) =>
      readdirSync(directory, { recursive: true, encoding: 'utf8' }).map((name) => join(directory, name)),
    )
    .filter((file) => file.endsWith('.test.ts') && (wanted.length === 0 || wanted.some((text) => file.includes(text))))
    .sort();
  if (files.length === 0) {
    console.error(`No test file has ${wanted.map((text) => `"${text}"`).join(' or ')} in its path.`);
    return 1;
  }
  const server = await resolveServer((line) => console.error(line));
  const tests = spawn(process.execPath, ['--import', 'tsx', '--test', '--test-reporter=spec', ...files], {
    env: { ...process.env, TEMPORAL_SEMAPHORE_SERVER: 'path' in server ? server.path : server.address },
    stdio: 'inherit',
  });
  return await new Promise((resolve, reject) => {
    tests.once('error', reject);
    tests.once('close', (code) => resolve(code ?? 1));
  });
}

main().then(
  (code) => {
    process.exitCode = code;
  },
  (error: unknown) => {
    console.error(error instanceof Error ? error.message : error);
    process.exitCode = 1;
  },
);
