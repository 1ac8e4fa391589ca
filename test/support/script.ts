import { type ChildProcess, spawn } from 'node:child_process';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { endWithTests } from './children';
import { quoted } from './cli-process';

export interface Ended {
  code: number | null;
  out: string;
  errors: string;
}

/** One of `scripts/`, running as a process of its own. */
export interface Script {
  readonly child: ChildProcess;
  readonly ended: Promise<Ended>;
  /** Resolves when standard output has matched; fails when the script ended without it. */
  says(pattern: RegExp): Promise<RegExpExecArray>;
}

/** envconfig takes a file that is not there for no configuration, and stumbles over an empty one. */
const NO_CONFIG = join(tmpdir(), 'temporal-semaphore-has-no-such-file.toml');

/**
 * Starts `scripts/<name>.ts`. Of the environment's Temporal settings it sees `env` alone.
 * @param onTerminal on a terminal of its own, by util-linux' `script`; all its output is then standard output
 */
export function startScript(
  name: string,
  args: string[] = [],
  env: Record<string, string> = {},
  onTerminal = false,
): Script {
  const inherited = Object.fromEntries(
    Object.entries(process.env).filter(([key]) => !key.startsWith('TEMPORAL_') || key === 'TEMPORAL_SEMAPHORE_SERVER'),
  );
  const path = join(__dirname, '..', '..', 'scripts', `${name}.ts`);
  const command = [process.execPath, '--import', 'tsx', path, ...args];
  const inShell = `stty rows 40 cols 120; exec ${command.map(quoted).join(' ')}`;
  const [file = '', ...rest] = onTerminal ? ['script', '-qefc', inShell, '/dev/null'] : command;
  const child = endWithTests(
    spawn(file, rest, {
      env: { ...inherited, TEMPORAL_CONFIG_FILE: NO_CONFIG, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    }),
  );
  let out = '';
  let errors = '';
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
    out += chunk;
  });
  child.stderr.setEncoding('utf8').on('data', (chunk: string) => {
    errors += chunk;
  });
  const ended = new Promise<Ended>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code) => resolve({ code, out, errors }));
  });
  const says: Script['says'] = (pattern) =>
    new Promise((resolve, reject) => {
      const look = () => {
        const found = pattern.exec(out);
        if (found) resolve(found);
      };
      child.stdout.on('data', look);
      void ended.then(() => reject(new Error(`${name} ended without saying ${pattern}:\n${out}${errors}`)));
      look();
    });
  return { child, ended, says };
}

/** Runs a script to its end. */
export async function runScript(...input: Parameters<typeof startScript>): Promise<Ended> {
  return await startScript(...input).ended;
}
