import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { BUILT_COMMAND_LINE } from '../../scripts/support/prepared';
import { endWithTests } from './children';

/** As `pnpm test` has built it, which starts sooner, or from source. */
const BUILT = process.env[BUILT_COMMAND_LINE];
const MAIN = BUILT ?? join(__dirname, '..', '..', 'src', 'cli', 'main.ts');

/** A test that waits for what never comes fails, and does not hang. */
const SAYS_WITHIN_MS = 60_000;

/** The command line, in a process of its own. */
export class CliProcess {
  /** The words with which it starts. */
  static readonly command = [process.execPath, ...(MAIN.endsWith('.ts') ? ['--import', 'tsx'] : []), MAIN];

  stdout = '';
  stderr = '';
  /** Its exit code, when all its output is here (also that of what it left behind); `null` when a signal ended it. */
  readonly exit: Promise<number | null>;
  private readonly process: ChildProcess;
  /** All who wait in {@link says}: several may at once. */
  private readonly waiting = new Set<() => void>();
  private ended = false;

  /**
   * @param onTerminal on a terminal of its own, by util-linux' `script`, as whose output all comes; {@link types} types
   * @param env beside that of the tests
   */
  constructor(
    args: readonly string[],
    onTerminal: boolean | { rows: number; columns: number } = false,
    env: NodeJS.ProcessEnv = {},
  ) {
    const { rows, columns } = typeof onTerminal === 'object' ? onTerminal : { rows: 40, columns: 160 };
    // A module that the command line loads may be in TypeScript, too.
    const loader = [MAIN, ...args].some((path) => path.endsWith('.ts')) ? ['--import', 'tsx'] : [];
    const command = [process.execPath, ...loader, MAIN, ...args];
    const inShell = `stty rows ${rows} cols ${columns}; exec ${command.map(quoted).join(' ')}`;
    const [file = '', ...rest] = onTerminal ? ['script', '-qefc', inShell, '/dev/null'] : command;
    this.process = spawn(file, rest, {
      stdio: [onTerminal ? 'pipe' : 'ignore', 'pipe', 'pipe'],
      env: { ...process.env, ...env },
    });
    endWithTests(this.process);
    this.process.stdout?.setEncoding('utf8').on('data', (text: string) => {
      this.stdout += text;
      this.heard();
    });
    this.process.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.stderr += text;
      this.heard();
    });
    this.exit = once(this.process, 'close').then(([code]) => {
      this.ended = true;
      this.heard();
      return code;
    });
  }

  /** Waits until its output has this, and gives what matched; fails when it ended without, or does not say it for a minute. */
  async says(pattern: RegExp): Promise<string> {
    const untilMs = performance.now() + SAYS_WITHIN_MS;
    for (;;) {
      const [, found] = (this.stdout + this.stderr).match(pattern) ?? [];
      if (found !== undefined) return found;
      const leftMs = untilMs - performance.now();
      if (this.ended || leftMs <= 0) {
        const how = this.ended ? 'ended without saying' : `has not said within ${SAYS_WITHIN_MS} ms`;
        throw new Error(`it ${how} ${pattern}:\n${this.stdout}${this.stderr}`);
      }
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, leftMs);
        this.waiting.add(() => {
          clearTimeout(timer);
          resolve();
        });
      });
    }
  }

  private heard(): void {
    for (const wake of this.waiting) wake();
    this.waiting.clear();
  }

  /** Reads its standard output no more, as `head` does when it has had enough. */
  stopsReading(): void {
    this.process.stdout?.destroy();
  }

  get pid(): number | undefined {
    return this.process.pid;
  }

  signal(name: NodeJS.Signals): void {
    this.process.kill(name);
  }

  types(text: string): void {
    this.process.stdin?.write(text);
  }
}

/** For a shell. */
export function quoted(word: string): string {
  return `'${word.replaceAll("'", "'\\''")}'`;
}
