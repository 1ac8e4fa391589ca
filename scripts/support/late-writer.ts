import { type ChildProcess, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { stripVTControlCharacters } from 'node:util';
import type { Client } from '@temporalio/client';
import { paint } from '@/cli/text';
import { duration } from '@/cli/wording';
import { SemaphoreClient } from '@/client';
import { MemoryFence } from '@/fencing';
import { Operator } from '@/operator';
import { diesWithUs } from './dies-with-us';
import { WRITE_EVERY_MS, type WriterInput, type WriterMessage } from './late-writer-main';
import { bar } from './live-view';
import { aborted } from './main';

const LEASE_MS = 4_000;
const DRAW_EVERY_MS = 100;

const [FIRST, NEXT] = ['writer-1', 'writer-2'];

/**
 * The second act of the demo: a holder hangs, its lease ends, the next one holds, and a fence refuses the late write of
 * the first. Make it early: its process takes seconds to start.
 */
export class LateWriter {
  private readonly resource = `ledger-${randomUUID().slice(0, 6)}`;
  private readonly semaphore;
  private readonly child: ChildProcess;
  private readonly ready: Promise<void>;
  /** Rejects when the first writer has ended. */
  private readonly ended: Promise<never>;
  /** What the writers write to: it refuses the token of an older permit. */
  private readonly ledger = new MemoryFence(this.resource);
  private startedMs = 0;
  private heard: (admitted: boolean) => void = () => undefined;

  constructor(
    private readonly client: Client,
    { address, taskQueue }: { address: string; taskQueue: string },
  ) {
    this.semaphore = { capacity: 1, taskQueue, lease: LEASE_MS };
    const { resource, semaphore } = this;
    const input: WriterInput = { address, name: FIRST, resource, semaphore };
    const args = ['--import', 'tsx', require.resolve('./late-writer-main'), JSON.stringify(input)];
    this.child = diesWithUs(spawn(process.execPath, args, { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] }));
    this.ended = new Promise((_, reject) => {
      this.child.once('exit', () => reject(new Error(`${FIRST} has ended`)));
    });
    this.ended.catch(() => undefined);
    this.ready = new Promise((resolve) => {
      this.child.on('message', (message: WriterMessage) => {
        if (message === 'ready') resolve();
        else void this.write(FIRST, message.token);
      });
    });
  }

  async show(interrupt: AbortSignal): Promise<void> {
    await Promise.race([this.play(), this.ended, aborted(interrupt)]);
  }

  close(): void {
    this.child.kill('SIGKILL');
  }

  private async play(): Promise<void> {
    await this.ready;
    const what = `Two processes write to a ledger under 1 permit, with a lease of ${duration(LEASE_MS)}.`;
    console.log(`\n${wrapped(`Now a holder hangs. ${what}`)}\n`);
    this.startedMs = Date.now();
    this.child.send('acquire');
    await this.untilWritten(2);
    this.say(`${NEXT} waits in line`);
    const next = new SemaphoreClient(this.client, this.resource, this.semaphore).acquire();
    await this.untilWritten(1);
    this.child.kill('SIGSTOP');
    this.say(paint.yellow(`${FIRST} hangs (kill -STOP): it renews nothing and releases nothing, as after a crash`));
    await this.drawLease(next);
    const permit = await next;
    this.say(paint.green(`the lease has ended: ${NEXT} holds slot ${permit.slot}`));
    await this.write(NEXT, permit);
    await delay(WRITE_EVERY_MS);
    this.say(paint.yellow(`${FIRST} goes on (kill -CONT), and has not looked whether it still holds`));
    const refused = this.untilRefused();
    this.child.kill('SIGCONT');
    await refused;
    this.child.removeAllListeners('message'); // it would go on and on
    await this.write(NEXT, permit);
    await permit.release();
  }

  private async write(who: string, token: Parameters<MemoryFence['admit']>[0]): Promise<void> {
    const refusal = await this.ledger.admit(token).then(
      () => undefined,
      (error: Error) => error,
    );
    const outcome = refusal ? paint.red(`refused. ${refusal.message}`) : 'the ledger takes it';
    this.say(`${who} writes: ${outcome}`);
    this.heard(refusal === undefined);
  }

  private async untilWritten(times: number): Promise<void> {
    for (let time = 0; time < times; time++) await new Promise((resolve) => (this.heard = resolve));
  }

  private async untilRefused(): Promise<void> {
    for (let admitted = true; admitted; ) admitted = await new Promise<boolean>((resolve) => (this.heard = resolve));
  }

  /** Draws how long the lease still lasts, by the server's own word, until the next writer holds. A pipe gets one line. */
  private async drawLease(next: Promise<unknown>): Promise<void> {
    const { slots } = await new Operator(this.client, this.resource, { capacity: 1 }).inspect({ recent: 0 });
    const endsAtMs = slots[0]?.permit?.leaseDeadline?.getTime() ?? Date.now() + LEASE_MS;
    if (!process.stdout.isTTY) {
      this.say(`its lease lasts ${duration(Math.max(0, endsAtMs - Date.now()))}`);
      return;
    }
    let over = false;
    const end = () => {
      over = true;
    };
    next.then(end, end);
    const { createLogUpdate } = await import('log-update');
    const redraw = createLogUpdate(process.stdout);
    for (; !over; await delay(DRAW_EVERY_MS)) {
      const leftMs = Math.max(0, endsAtMs - Date.now());
      redraw(`${' '.repeat(9)}${bar(leftMs / LEASE_MS)} its lease lasts ${duration(leftMs)}`);
    }
    redraw.clear();
    redraw.done();
  }

  private say(what: string): void {
    const time = `${duration(Date.now() - this.startedMs).padStart(7)}  `;
    console.log(`${time}${wrapped(what, time.length)}`);
  }
}

/** In lines that fit the terminal, of whole words. @param indent how many columns are taken at the left of each line */
function wrapped(text: string, indent = 0): string {
  const width = (process.stdout.columns || 80) - indent;
  const lines = [''];
  for (const word of text.split(' ')) {
    const line = lines.at(-1) ?? '';
    const longer = line === '' ? word : `${line} ${word}`;
    if (line !== '' && stripVTControlCharacters(longer).length > width) lines.push(word);
    else lines[lines.length - 1] = longer;
  }
  return lines.join(`\n${' '.repeat(indent)}`);
}
