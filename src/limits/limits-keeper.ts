import { resolve } from 'node:path';
import type { Client } from '@temporalio/client';
import { pause } from '../client/server/clock';
import { messageOf } from '../client/server/errors';
import { type Applied, applyChanges, type ToChange } from './apply';
import { type Comparison, compare } from './compare';
import { type Looks, lookAtLimits } from './in-force';
import { type LimitsFile, poolOf } from './limit';
import { readLimitsFile } from './limits-file';
import { textAt } from './limits-file-at';

/** How often what is in force is compared with the file. */
const EVERY_MS = 60_000;

/** How soon again, the first time, if something could not be compared or changed: the worker that answers may just have begun to poll. */
const AGAIN_MS = 5_000;

/** Receives what the keeper does. */
export interface KeeperLog {
  info(message: string): void;
  warn(message: string): void;
}

export interface KeeperOptions {
  readonly log: KeeperLog;
  /** Where the queue of a resource starts if nothing of the resource runs. */
  readonly ownTaskQueue: string;
  /** @default a minute */
  readonly everyMs?: number;
}

/**
 * Keeps a limits file in force: compares it again and again with the limits in force, and changes what differs, as `apply` does. A limit that is
 * in force already gets no command, so several keepers of one file do not disturb each other; of two files, the file with the greater version
 * wins. The keeper never throws: it reports once what it can't do, and tries again.
 */
export class LimitsKeeper {
  private text: string;
  private file: LimitsFile;
  private readonly path: string;
  private readonly looks: Looks = new Map();
  /** What the last round has warned of. */
  private warned = new Set<string>();
  /** What this round warns of. */
  private warnings = new Set<string>();

  /** @throws InvalidOptionsError if the file is not there, or names a mistake */
  constructor(
    path: string,
    private readonly options: KeeperOptions,
  ) {
    this.path = resolve(path);
    this.text = textAt(path);
    this.file = readLimitsFile(this.text, path);
  }

  /** Keeps the file in force for as long as this work runs. */
  async during<T>(work: () => Promise<T>, client: Client): Promise<T> {
    const ended = new AbortController();
    const kept = client.withAbortSignal(ended.signal, () => this.keep(client, ended.signal));
    try {
      return await work();
    } finally {
      ended.abort();
      await kept;
    }
  }

  private async keep(client: Client, ended: AbortSignal): Promise<void> {
    const { everyMs = EVERY_MS } = this.options;
    let againMs = Math.min(AGAIN_MS, everyMs);
    while (!ended.aborted) {
      const isAllDone = await this.round(client, ended);
      againMs = isAllDone ? everyMs : Math.min(2 * againMs, everyMs);
      await pause(againMs, ended);
    }
  }

  /** @returns whether everything could be compared and changed */
  private async round(client: Client, ended: AbortSignal): Promise<boolean> {
    this.warnings = new Set();
    this.readAgain();
    const isAllDone = await this.mend(client).catch((error: unknown) => {
      if (!ended.aborted) this.warn(`What is in force can't be compared with ${this.name}: ${messageOf(error)}`);
      return false;
    });
    this.warned = this.warnings;
    return isAllDone;
  }

  private async mend(client: Client): Promise<boolean> {
    const { file, seen } = await lookAtLimits(client, this.file, this.looks);
    const comparisons = compare(file, seen);
    this.warnOfProblems(comparisons);
    const changes = comparisons.filter((it): it is ToChange => it.change !== undefined);
    const { ownTaskQueue } = this.options;
    const applied = await applyChanges(client, changes, { ownTaskQueue, onApplied: (it) => this.tell(it) });
    const isUnseen = comparisons.some(({ problem }) => problem?.kind === 'unseen');
    return !isUnseen && applied.every(({ is }) => is === 'changed');
  }

  /** A file that has become malformed leaves the last good one in force. */
  private readAgain(): void {
    try {
      const text = textAt(this.path);
      if (text === this.text) return;
      this.file = readLimitsFile(text, this.path);
      this.text = text;
      this.options.log.info(`${this.name} is kept in force from now on.`);
    } catch (error) {
      this.warn(`${this.name} stays in force. ${messageOf(error)}`);
    }
  }

  private warnOfProblems(comparisons: readonly Comparison[]): void {
    const superseded = new Map<string, string[]>();
    for (const { limit, problem } of comparisons) {
      if (problem?.kind !== 'superseded') {
        if (problem) this.warn(`${poolOf(limit)}: ${problem.message}.`);
        continue;
      }
      superseded.set(problem.message, [...(superseded.get(problem.message) ?? []), poolOf(limit)]);
    }
    for (const [message, [first, ...more]] of superseded) {
      this.warn(`${first}${more.length > 0 ? ` and ${more.length} more` : ''}: ${message}.`, message);
    }
  }

  private tell(applied: Applied): void {
    const { of } = applied;
    const pool = poolOf(of.limit);
    if (applied.is === 'changed') this.options.log.info(`${pool}: ${changeNote(of)}, by ${this.name}.`);
    // Another keeper, or an operator, was faster: the next round sees what they did.
    if (applied.is === 'failed') this.warn(`${pool} may not have changed: ${applied.problem}`);
  }

  /** Says it once, until it is over. @param what it is, where the words may vary */
  private warn(message: string, what = message): void {
    this.warnings.add(what);
    if (!this.warned.has(what)) this.options.log.warn(message);
  }

  private get name(): string {
    return `version ${this.file.version} of the limits file ${this.path}`;
  }
}

function changeNote({ change: { capacity, paused }, inUse = 0 }: ToChange): string {
  const notes = paused === undefined ? [] : [paused ? 'paused' : 'resumed'];
  if (capacity !== undefined) notes.unshift(`${inUse} -> ${capacity}`);
  return notes.join(', ');
}
