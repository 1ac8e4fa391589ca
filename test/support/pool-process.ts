import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import type { Client } from '@temporalio/client';
import { permitsQuery } from '../../scripts/support/holder-intervals';
import { endWithTests } from './children';
import type { PoolInput, PoolLine } from './pool-main';
import { eventually } from './temporal';

const MAIN = require.resolve('./pool-main');

/** One call under a pooled permit, on the clock of {@link nowMs}. */
export interface Call {
  process: number;
  runId: string;
  fromMs: number;
  /** Infinity when its process was killed meanwhile. */
  toMs: number;
  waitedMs: number;
  lost: boolean;
}

/** A clock that all processes of the machine share. */
function nowMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}

/** A process with a permit pool. */
export class PoolProcess {
  private static count = 0;
  private readonly id = PoolProcess.count++;
  private readonly made = new Map<number, Call>();
  private readonly seen = new Set<PoolLine['at']>();
  private readonly child: ChildProcess;
  private heard = () => {};
  private ended = false;
  /** The exit code. */
  readonly exit: Promise<number | null>;

  private constructor(input: PoolInput) {
    const { TEMPORAL_SEMAPHORE_SERVER: _, ...env } = process.env;
    this.child = endWithTests(
      spawn(process.execPath, ['--import', 'tsx', MAIN, JSON.stringify(input)], {
        env,
        stdio: ['pipe', 'pipe', 'inherit'],
      }),
    );
    this.exit = once(this.child, 'close').then(([code]) => code);
    this.child.once('close', () => {
      this.ended = true;
      this.heard();
    });
    if (!this.child.stdout) throw new Error('no stdout');
    createInterface(this.child.stdout).on('line', (text) => this.hear(JSON.parse(text)));
  }

  /** Processes that are connected; {@link go} lets them call. */
  static async open(...inputs: PoolInput[]): Promise<PoolProcess[]> {
    const opened = inputs.map((input) => new PoolProcess(input));
    for (const it of opened) await it.until('open');
    return opened;
  }

  go(): void {
    this.child.stdin?.write('go\n');
  }

  get calls(): Call[] {
    return [...this.made.values()];
  }

  async until(at: PoolLine['at']): Promise<void> {
    while (!this.seen.has(at)) {
      if (this.ended) throw new Error(`the process ended before "${at}"`);
      await new Promise<void>((resolve) => {
        this.heard = resolve;
      });
    }
  }

  signal(name: NodeJS.Signals): void {
    this.child.kill(name);
  }

  async kill(): Promise<void> {
    this.child.kill('SIGKILL');
    await this.exit;
  }

  private hear(line: PoolLine): void {
    this.seen.add(line.at);
    if (line.at === 'begin') {
      const { call, runId, ms: fromMs, waitedMs } = line;
      this.made.set(call, { process: this.id, runId, fromMs, toMs: Infinity, waitedMs, lost: false });
    } else if (line.at === 'end') {
      const call = this.made.get(line.call);
      if (call) Object.assign(call, { toMs: line.ms, lost: line.lost });
    }
    this.heard();
  }
}

/** How long the news that a permit was revoked takes to its holder, with a machine that does much else. */
const NEWS_MS = 500;

/**
 * Checks that never more calls than `capacity` ran at once, as their holders could know: each call counts from its begin to its
 * end, or to the end of its permit at the server where the holder lost it. No call may begin later under a permit that has ended than the news
 * of its end takes, and none that was not lost may outlive it by more.
 */
export async function assertCallsSafe(
  client: Client,
  resource: string,
  capacity: number,
  calls: readonly Call[],
): Promise<void> {
  const ends = await permitEnds(client, resource, new Set(calls.map(({ runId }) => runId)));
  const steps: { atMs: number; by: number }[] = [];
  const slots = new Map<string, Call[]>();
  for (const call of calls) {
    const end = ends.get(call.runId);
    assert.ok(end, `permit ${call.runId} is known to the server`);
    const lateMs = call.fromMs - end.atMs;
    assert.ok(lateMs < NEWS_MS, `a call began ${lateMs} ms after its permit had ended`);
    assert.ok(
      call.lost || call.toMs === Infinity || call.toMs <= end.atMs + NEWS_MS,
      `a call went on for ${call.toMs - end.atMs} ms after its permit had ended, and did not hear of it`,
    );
    if (lateMs >= 0) continue; // its permit was revoked, and a fence would have refused it
    const toMs = Math.min(call.toMs, end.atMs);
    steps.push({ atMs: call.fromMs, by: 1 }, { atMs: toMs, by: -1 });
    slots.set(end.slot, [...(slots.get(end.slot) ?? []), { ...call, toMs }]);
  }
  for (const [slot, list] of slots) {
    list.sort((a, b) => a.fromMs - b.fromMs);
    for (const [n, call] of list.entries()) {
      const before = list[n - 1];
      assert.ok(!before || before.toMs <= call.fromMs, `two calls at once under slot ${slot}`);
    }
  }
  let now = 0;
  for (const { by } of steps.sort((a, b) => a.atMs - b.atMs || a.by - b.by)) {
    now += by;
    assert.ok(now <= capacity, `${now} calls at once, capacity ${capacity}`);
  }
}

/** When each permit ended, on the clock of {@link nowMs}. */
async function permitEnds(client: Client, resource: string, runIds: ReadonlySet<string>) {
  const offsetMs = Date.now() - nowMs();
  return await eventually(async () => {
    const ends = new Map<string, { slot: string; atMs: number }>();
    for await (const { workflowId, runId, closeTime } of client.workflow.list({ query: permitsQuery(resource) })) {
      if (closeTime) ends.set(runId, { slot: workflowId, atMs: closeTime.getTime() - offsetMs });
    }
    for (const runId of runIds) assert.ok(ends.has(runId), `permit ${runId} has ended`);
    return ends;
  });
}
