import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';
import type { Writable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { EXIT, signalCode } from './exit-codes';
import { say } from './terminal';
import { text } from './text';

/** How often to check whether the group has ended: the system reports the end of its first process only. */
const LOOK_MS = 20;

/** How long killed processes may take to leave the group. */
const REAP_MS = 500;

/** A shell that becomes the command once a line has come; when its sender dies first, it ends. */
const GATE = ['-c', 'read -r _ <&3 && exec "$@" 3<&-', 'sh'];

/**
 * A command and every process that it starts, in a process group of their own. A process that leaves the group (`setsid`)
 * escapes. The group is there from the start; the command begins with {@link begin}, when the guard knows of the group too.
 */
export class ProcessGroup {
  /** The exit code of the command itself, as a shell gives it. */
  readonly exit: Promise<number>;
  private readonly leader: ChildProcess | undefined;

  constructor([command = '', ...args]: readonly string[], env: NodeJS.ProcessEnv) {
    const options = { env, detached: true } as const;
    try {
      // A command that can't be started says why by itself.
      this.leader = isFound(command, env)
        ? spawn('/bin/sh', [...GATE, command, ...args], {
            ...options,
            stdio: ['inherit', 'inherit', 'inherit', 'pipe'],
          })
        : spawn(command, args, { ...options, stdio: 'inherit' });
      this.gate?.on('error', () => undefined); // the group was ended before it began
      this.exit = exitCode(this.leader).catch((error) => notStarted(command, error));
    } catch (error) {
      this.exit = Promise.resolve(notStarted(command, error)); // too long an environment, or a path through what is no directory
    }
  }

  /** The group's ID; `undefined` when the command could not be started. */
  get id(): number | undefined {
    return this.leader?.pid;
  }

  /** Lets the command begin. */
  begin(): void {
    this.gate?.end('\n');
  }

  private get gate(): Writable | undefined {
    return (this.leader?.stdio[3] ?? undefined) as Writable | undefined;
  }

  /** Signals the whole group. `false` when it is empty. A group of another user (`sudo`) runs on. */
  signal(name: NodeJS.Signals | 0): boolean {
    if (this.id === undefined) return false;
    try {
      return process.kill(-this.id, name);
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code === 'ESRCH') return false;
      if (name !== 0 && name !== 'SIGWINCH')
        say(text`can't send ${name} to the command (${code}), which keeps running`);
      return true;
    }
  }

  /** Ends the whole group: by TERM, and after `graceMs` by KILL. Resolves when the group is empty. */
  async end(graceMs: number): Promise<void> {
    if (this.signal('SIGTERM')) this.signal('SIGCONT'); // a stopped command then receives TERM
    if (await this.isGone(graceMs)) return;
    this.signal('SIGKILL');
    // In a container whose first process reaps no zombies, zombies stay in the group. They hold nothing any more.
    await this.isGone(REAP_MS);
  }

  private async isGone(withinMs: number): Promise<boolean> {
    const untilMs = performance.now() + withinMs;
    while (this.signal(0)) {
      if (performance.now() >= untilMs) return false;
      await delay(LOOK_MS);
    }
    return true;
  }
}

async function exitCode(leader: ChildProcess): Promise<number> {
  const [code, signal] = (await once(leader, 'exit')) as [number | null, NodeJS.Signals | null];
  return signal ? signalCode(signal) : (code ?? 1);
}

/** Says why the command could not be started. @returns the exit code */
function notStarted(command: string, error: unknown): number {
  const { code, message } = error as NodeJS.ErrnoException;
  say(`${command}: ${NOT_STARTED[code ?? ''] ?? message}`);
  return code === 'ENOENT' ? EXIT.notFound : EXIT.notExecutable;
}

/** In the words of shells. */
const NOT_STARTED: Record<string, string> = { ENOENT: 'command not found', EACCES: 'permission denied' };

function isFound(command: string, { PATH = '' }: NodeJS.ProcessEnv): boolean {
  const places = command.includes('/') ? [command] : PATH.split(delimiter).map((directory) => join(directory, command));
  return places.some((path) => {
    try {
      accessSync(path, constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}
