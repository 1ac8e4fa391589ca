import { type ChildProcess, spawn } from 'node:child_process';
import { dirname, join } from 'node:path';
import type { Readable } from 'node:stream';
import { BUILT_COMMAND_LINE } from '../../scripts/support/prepared';
import { endWithTests } from './children';
import { quoted } from './cli-process';

/** As `pnpm test` has built it, which starts sooner, as does the guard of a `run`; or from source. */
const BUILT = process.env[BUILT_COMMAND_LINE];
const MAIN = BUILT
  ? [join(dirname(BUILT), 'cli-host-main.js')]
  : ['--import', 'tsx', require.resolve('./cli-host-main')];

export interface Ended {
  code: number;
  stdout: string;
  /** Empty on a terminal, where `stdout` has all. */
  stderr: string;
}

/**
 * The command line, whose commands run one after the other in one process: for the many that a test file runs to their end.
 * A process for each takes half a second of work. Use a `CliProcess` for what is asked, interrupted or killed.
 */
export class CliHost {
  private process: ChildProcess | undefined;
  private last: Promise<unknown> = Promise.resolve();

  /**
   * @param onTerminal on a terminal of its own, by util-linux' `script`
   * @param env beside that of the tests
   */
  constructor(
    private readonly onTerminal = false,
    private readonly env: NodeJS.ProcessEnv = {},
  ) {}

  async run(args: readonly string[]): Promise<Ended> {
    const ended = this.last.then(async () => await this.next(args));
    this.last = ended.catch(() => undefined);
    return await ended;
  }

  private async next(args: readonly string[]): Promise<Ended> {
    this.process ??= this.start();
    const { stdout, stderr } = this.process;
    if (!stdout || !stderr) throw new Error('no output');
    const said = Promise.all([untilEnd(stdout), this.onTerminal ? ['', ''] : untilEnd(stderr)]);
    this.process.send(args);
    const [[out = '', code], [errors = '']] = await said;
    return { code: Number(code), stdout: out, stderr: errors };
  }

  private start(): ChildProcess {
    const command = [process.execPath, ...MAIN];
    const inShell = `stty rows 40 cols 160; exec ${command.map(quoted).join(' ')}`;
    const [file = '', ...rest] = this.onTerminal ? ['script', '-qefc', inShell, '/dev/null'] : command;
    const started = spawn(file, rest, {
      stdio: [this.onTerminal ? 'pipe' : 'ignore', 'pipe', 'pipe', 'ipc'],
      env: { ...process.env, ...this.env },
    });
    for (const stream of [started.stdout, started.stderr]) stream?.setEncoding('utf8');
    return endWithTests(started);
  }
}

/** What comes before the mark of a command's end, and what the mark says. */
async function untilEnd(stream: Readable): Promise<string[]> {
  let said = '';
  return await new Promise((resolve, reject) => {
    const done = () => {
      stream.off('data', heard);
      stream.off('end', ended);
    };
    const heard = (text: string) => {
      said += text;
      const [, output, code] = /^([^\0]*)\0(\d+)\0$/.exec(said) ?? [];
      if (output === undefined || code === undefined) return;
      done();
      resolve([output, code]);
    };
    const ended = () => {
      done();
      reject(new Error(`the command line's process has ended: ${said}`));
    };
    stream.on('data', heard);
    stream.on('end', ended);
  });
}
